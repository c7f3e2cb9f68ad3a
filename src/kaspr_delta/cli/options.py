"""Options that every command takes, before or after its name, and the application that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaspr_delta.cli.completion import complete_application
from kaspr_delta.cli.interruption import off_main_thread
from kaspr_delta.cli.progress import working
from kaspr_delta.cli.target import Target
from kaspr_delta.settings import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE

if TYPE_CHECKING:
    from kaspr_delta.application import Application

_WHERE = (
    "Where the tables live: a folder, or unity://CATALOG.SCHEMA/VOLUME on Databricks."
    f" [env var: {WAREHOUSE_VARIABLE}; default: ./{DEFAULT_WAREHOUSE}]"
)


WarehouseOption = Annotated[str | None, typer.Option("--warehouse", metavar="DIR", help=_WHERE)]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="NAME",
        help="The application, where there is more than one.",
        autocompletion=complete_application,
    ),
]


def remember(context: typer.Context, warehouse: WarehouseOption = None, app: AppOption = None) -> None:
    """Tables, agents and joins that stay up to date by themselves, on Spark and Delta Lake."""
    context.obj = Target(warehouse, app)


def open_application(
    context: typer.Context, warehouse: str | None, app: str | None, path: Path | None = None
) -> Application:
    """The application that the options and an optional path name. Raises what ``Application.open`` raises."""
    from kaspr_delta.application import Application

    target = Target.of(context, warehouse, app)
    with working("Starting Spark"):
        return off_main_thread(lambda: Application.open(path, warehouse=target.location.text, app=target.app))
