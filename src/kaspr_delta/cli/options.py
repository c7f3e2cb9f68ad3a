"""Options that every command takes, before or after its name, and the application they lead to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaspr_delta.cli.interruption import off_main_thread
from kaspr_delta.cli.progress import working
from kaspr_delta.settings import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE

if TYPE_CHECKING:
    from kaspr_delta.application import Application

_WHERE = (
    "Where the tables live: a folder, or unity://CATALOG.SCHEMA/VOLUME on Databricks."
    f" [env var: {WAREHOUSE_VARIABLE}; default: ./{DEFAULT_WAREHOUSE}]"
)


def _complete_application(context: typer.Context, incomplete: str) -> list[str]:
    from kaspr_delta.cli.completion import complete_application  # which needs the options

    return complete_application(context, incomplete)


WarehouseOption = Annotated[str | None, typer.Option("--warehouse", metavar="DIR", help=_WHERE)]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="NAME",
        help="The application, where there is more than one.",
        autocompletion=_complete_application,
    ),
]


@dataclass(frozen=True, slots=True)
class Target:
    """What ``--warehouse`` and ``--app`` say: behind the command's name, or else before it."""

    warehouse: str | None = None
    app: str | None = None

    @classmethod
    def of(cls, context: typer.Context, warehouse: str | None, app: str | None) -> Target:
        """The target of a command that was given these options behind its name."""
        before = context.obj if isinstance(context.obj, Target) else Target()
        return cls(warehouse or before.warehouse, app or before.app)

    @property
    def place(self) -> str:
        """The warehouse: named, or that of the environment, or the default."""
        return self.warehouse or os.environ.get(WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE


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
        return off_main_thread(lambda: Application.open(path, warehouse=target.place, app=target.app))
