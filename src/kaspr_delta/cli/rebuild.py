"""``kaspr-delta rebuild``: a join's state anew from its tables."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from kaspr_delta.cli.options import AppOption, WarehouseOption, open_application
from kaspr_delta.cli.progress import show_report, working


def rebuild(
    context: typer.Context,
    resource: Annotated[str, typer.Argument(metavar="KIND/NAME", help="What to rebuild, such as join/NAME.")],
    warehouse: WarehouseOption = None,
    app: AppOption = None,
) -> None:
    """Make the state of a join anew, from its tables as they are and by its definition as it was last applied.

    Needed after its extractor, type or tables changed, and when changes of its tables were lost. Readers of the result
    and of the channel see one change: rows that stay the same do not appear in it.

    Example: kaspr-delta rebuild join/orders-products-join
    """
    application = open_application(context, warehouse, app)
    with working(f"Rebuilding {resource}"):
        report = application.rebuild(resource)
    show_report(report, Console(highlight=False))
