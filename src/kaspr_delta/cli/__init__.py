"""The command ``kaspr-delta``: one function per command, errors as one clear message, exit codes 0, 1 and 2.

A ``run`` until quiet that is interrupted ends with 128 and the signal. ``deploy`` and ``purge`` end with the exit code
of the Databricks CLI if that fails. A call imports the module of its command alone: all of them take longer than most
commands run.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence
from typing import Any

import typer

from kaspr_delta.cli.command import Command
from kaspr_delta.cli.options import OPTIONS, before_command, with_target
from kaspr_delta.cli.progress import note
from kaspr_delta.errors import KasprError, ManifestError, UsageError

# The commands in the order in which they are listed, each with its module.
_MODULES = {
    **{name: name for name in ("demo", "init", "validate", "test", "dev", "plan", "run")},
    **dict.fromkeys(("apply", "get", "describe", "delete"), "resources"),
    **dict.fromkeys(("produce", "consume"), "records"),
    **dict.fromkeys(("table", "export"), "table"),
    "sql": "sql",
    "status": "status",
    "dead-letters": "dead_letters",
    "rebuild": "run",
    "serve": "serve",
    "deploy": "deploy",
    "logs": "deployed",
    "purge": "deploy",
    "copy": "copy",
    "schema": "validate",
    "doctor": "doctor",
}
_WITHOUT_WAREHOUSE = {"init", "deploy", "logs", "purge", "copy"}


@functools.cache
def commands(*names: str) -> typer.Typer:
    """The command line with these commands."""
    made = typer.Typer(
        name="kaspr-delta",
        callback=before_command,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    for name in names:
        module = importlib.import_module(f"kaspr_delta.cli.{_MODULES[name]}")
        function = getattr(module, name.replace("-", "_"))
        made.command(name, cls=Command)(function if name in _WITHOUT_WAREHOUSE else with_target(function))
    return made


def __getattr__(name: str) -> Any:
    """``application`` is the command line with all commands."""
    if name == "application":
        return commands(*_MODULES)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def called(arguments: Sequence[str]) -> typer.Typer:
    """The command line with the command that these arguments call, or with all if they call none: help lists them."""
    name = command_in(arguments)
    if name in _MODULES:
        return commands(name)
    return commands() if "--version" in arguments else commands(*_MODULES)


def command_in(arguments: Sequence[str]) -> str:
    """The name of a command among the arguments: the first one that is no option, nor the value of one; else empty."""
    rest = iter(arguments)
    for one in rest:
        if one in OPTIONS:
            next(rest, None)
        elif not one.startswith("-"):
            return one
    return ""


def main() -> None:
    """Run the command line. A failure is one sentence; the exit code is 2 for a wrong call, else 1."""
    try:
        called(sys.argv[1:])()
    except ManifestError as error:
        from kaspr_delta.cli.validate import print_findings

        print_findings(error.findings, to_stderr=True)
        sys.exit(1)
    except KasprError as error:
        note(str(error), style="", event="error")
        sys.exit(2 if isinstance(error, UsageError) else 1)


def task() -> None:
    """Run the command line as a task of a Databricks job.

    Errors are raised, so that Databricks shows them. SystemExit(0) is not: Databricks counts a task that raises it as
    failed.
    """
    from kaspr_delta.cli.operation import expanded

    try:
        arguments = expanded(sys.argv[1:])
        called(arguments)(arguments)
    except SystemExit as end:
        if end.code:
            raise
