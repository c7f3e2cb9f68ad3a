"""The job for operations: the commands that its task runs, and its start from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import typer

from kaspr_delta.cli.deployed import written
from kaspr_delta.cli.progress import note
from kaspr_delta.errors import UsageError
from kaspr_delta.settings import OPERATION

# The commands, each with options that it has there unless somebody gives others. The job waits for its turn: a resource
# that is to be rebuilt may run at the moment.
_COMMANDS = {
    "rebuild": ("--patience", "1h"),
    "dead-letters": (),
    "delete": (),
    "status": (),
    "purge": ("--own-job",),
}
# It applies the manifests, for they may have been deployed just now.
_APPLIES = "rebuild"


def expanded(arguments: Sequence[str]) -> list[str]:
    """The arguments of a task; those of an operation become the command that its parameter holds. Raises UsageError.

    >>> manifests = ["/files/bundles/shop", "--origin", "bundles/shop", "--revision", "1a2b"]
    >>> expanded(["operation", *manifests, "dead-letters --retry", "--app", "shop"])
    ['--app', 'shop', 'dead-letters', '--retry']
    """
    if arguments[:1] != [OPERATION]:
        return list(arguments)
    _, folder, in_origin, origin, of_revision, revision, text, *options = arguments
    try:
        command, *given = shlex.split(text)
    except ValueError as error:  # a quote without its end, or no word at all
        raise UsageError(f"{text!r} is no command: {error}") from None
    if command not in _COMMANDS:
        raise UsageError(f"the job runs no {command!r}, only: {', '.join(_COMMANDS)}")
    if command == "purge":  # it opens no application
        at = dict(zip(options[::2], options[1::2], strict=True))
        return [command, *_COMMANDS[command], *given, at["--app"], "--warehouse", at["--warehouse"]]
    return [
        *options,
        command,
        *_COMMANDS[command],
        *given,
        *([folder, in_origin, origin, of_revision, revision] if command == _APPLIES else []),
    ]


def operate(target: str, application: str | None, profile: str | None, command: Sequence[str]) -> None:
    """Let the job of a deployed application run a command, and print its output. Exits with 1 unless it succeeds."""
    from kaspr_delta.workspace import Operations, Workspace

    operations = Operations.of(Workspace.of_target(target, profile), target, application)
    state = ""
    for run in operations.runs_of(shlex.join(command)):
        if not state:
            note(f"{operations.name}: {run.url or run.id}")
        if run.state != state:
            note(run.state.lower())
            state = run.state
    for task in run.tasks:
        for line in written(operations.workspace, task):
            typer.echo(line)
    if run.message and not run.tasks:
        typer.echo(run.message)
    if run.state != "SUCCESS":
        raise typer.Exit(1)
