"""Options that every command takes, before or after its name, and the application they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kaspr_delta.application import Application
from kaspr_delta.cli.progress import working

WarehouseOption = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        metavar="DIR",
        envvar="KASPR_DELTA_WAREHOUSE",
        help="Where the tables live: a folder, or unity://CATALOG.SCHEMA/VOLUME on Databricks. [default: ./.kaspr-delta]",
        show_envvar=True,
    ),
]
AppOption = Annotated[
    str | None, typer.Option("--app", metavar="NAME", help="The application, where there is more than one.")
]


@dataclass(frozen=True, slots=True)
class Target:
    """What the options before the command's name said."""

    warehouse: str | None = None
    app: str | None = None


def remember(context: typer.Context, warehouse: WarehouseOption = None, app: AppOption = None) -> None:
    """Tables, agents and foreign-key joins that stay up to date by themselves, on Spark and Delta Lake."""
    context.obj = Target(warehouse, app)


def open_application(
    context: typer.Context, warehouse: str | None, app: str | None, path: Path | None = None
) -> Application:
    """The application that the options and an optional path name. Raises what ``Application.open`` raises."""
    before = context.obj if isinstance(context.obj, Target) else Target()
    with working("Starting Spark"):
        return Application.open(path, warehouse=warehouse or before.warehouse, app=app or before.app)
