"""``kaspr-delta rebuild``: make the state of a join or of a made table anew."""

from __future__ import annotations

from typing import Annotated

import typer

from kaspr_delta.cli.completion import complete_rebuilt
from kaspr_delta.cli.options import AppOption, WarehouseOption, open_application
from kaspr_delta.cli.progress import results, show_report, working


def rebuild(
    context: typer.Context,
    resource: Annotated[
        str,
        typer.Argument(
            metavar="KIND/NAME",
            help="The resource: join/NAME or table/NAME.",
            autocompletion=complete_rebuilt,
        ),
    ],
    warehouse: WarehouseOption = None,
    app: AppOption = None,
) -> None:
    """Make the state of a join anew, or of a table that is made from something, by its definition as last applied.

    It is made from what it reads as that is now. Needed after a join's extractor, type or tables or a table's functions
    changed, and when changes of what it reads were lost. Readers see one change: rows that stay the same do not appear
    in it.

    For example:

        kaspr-delta rebuild join/orders-products-join
        kaspr-delta rebuild table/orders-per-customer
    """
    application = open_application(context, warehouse, app)
    with working(f"Rebuilding {resource}"):
        report = application.rebuild(resource)
    show_report(report, results())
