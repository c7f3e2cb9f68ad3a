"""Options that every command takes, before or after its name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from kaspr_delta.cli.completion import complete_application
from kaspr_delta.cli.target import Target
from kaspr_delta.settings import DEFAULT_WAREHOUSE, WAREHOUSE_VARIABLE
from kaspr_delta.version import VERSION

_WHERE = (
    "Where the tables live: a folder, s3://BUCKET/PATH, or unity://CATALOG.SCHEMA/VOLUME on Databricks."
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
_OF_MANIFESTS = "In manifests"
ValuesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--values",
        metavar="FILE",
        help="A file of values for ${NAME}, before values.yaml; may be repeated.",
        rich_help_panel=_OF_MANIFESTS,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="The value for ${NAME}; may be repeated.",
        rich_help_panel=_OF_MANIFESTS,
    ),
]


OPTIONS = ("--warehouse", "--app", "--values", "--set")
"""The options that name a target, each of which has a value."""


def _version_asked(asked: bool) -> None:  # noqa: FBT001  called by typer
    if asked:
        typer.echo(f"kaspr-delta {VERSION}")
        raise typer.Exit


def before_command(
    warehouse: WarehouseOption = None,
    app: AppOption = None,
    values: ValuesOption = None,
    settings: SetOption = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version_asked, is_eager=True)
    ] = False,
) -> None:
    """Tables, agents and joins that stay up to date by themselves, on Spark and Delta Lake."""


def with_target(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is a target, as one with the options that name it.

    The options for manifests are those of commands that read some: of all with a parameter ``path`` or ``files``.
    """

    @functools.wraps(command)
    def run(context: typer.Context, **given: Any) -> None:
        command(Target.of(context), **{name: value for name, value in given.items() if name in names})

    *of_target, _ = inspect.signature(before_command, eval_str=True).parameters.values()
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    names = {one.name for one in own}
    if not names & {"path", "files"}:
        of_target = [one for one in of_target if one.name in {"warehouse", "app"}]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    shown = [context, *own, *of_target]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]  # read by typer
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run
