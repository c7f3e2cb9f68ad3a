"""``kaspr-delta rebuild``: make the state of a join or of a made table anew."""

from __future__ import annotations

from typing import Annotated

import typer

from kaspr_delta.cli.completion import complete_rebuilt
from kaspr_delta.cli.progress import results, show_report, working
from kaspr_delta.cli.target import Target


def rebuild(
    target: Target,
    resource: Annotated[
        str,
        typer.Argument(
            metavar="KIND/NAME",
            help="The resource: join/NAME or table/NAME.",
            autocompletion=complete_rebuilt,
        ),
    ],
) -> None:
    """Make the state of a join, or of a table made from another resource, anew: by its newest applied definition.

    The new state is computed from the current rows of its sources. A rebuild is needed if a join's extractor, type or
    tables have changed, or a table's functions, and if unread changes of a source are gone. Readers see one change,
    with only the rows that differ.

    For example:

        kaspr-delta rebuild join/orders-products-join
        kaspr-delta rebuild table/orders-per-customer
    """
    application = target.open()
    with working(f"Rebuilding {resource}"):
        report = application.rebuild(resource)
    show_report(report, results())
