"""The job for operations: the commands that its task runs, and its start from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import typer

from kaspr_delta.cli.deployed import written
from kaspr_delta.cli.progress import note
from kaspr_delta.errors import UsageError
from kaspr_delta.settings import GRANT, OPERATION

# The commands, each with options that it has there unless somebody gives others. The job waits for its turn: a resource
# that is to be rebuilt may run at the moment.
_COMMANDS = {
    "rebuild": ("--patience", "1h"),
    "dead-letters": (),
    "delete": (),
    "doctor": (),
    "status": (),
    "purge": ("--own-job",),
}
# Those that read the folder of the manifests; a rebuild applies them, for they may have been deployed just now.
_READ, _APPLY = frozenset({"rebuild", "doctor"}), frozenset({"rebuild"})


def expanded(arguments: Sequence[str]) -> list[str]:
    """The arguments of a task; those of an operation become the command that its parameter holds. Raises UsageError.

    >>> expanded(["operation", "/files/bundles/shop", "bundles/shop", "dead-letters --retry", "--app", "shop"])
    ['--app', 'shop', 'dead-letters', '--retry']
    """
    if arguments[:1] != [OPERATION]:
        return list(arguments)
    _, folder, origin, text, *options = arguments
    pairs = [*zip(options[::2], options[1::2], strict=True)]
    where = [part for pair in pairs if pair[0] != GRANT for part in pair]
    granted = [part for pair in pairs if pair[0] == GRANT for part in pair]
    try:
        command, *given = shlex.split(text)
    except ValueError as error:  # a quote without its end, or no word at all
        raise UsageError(f"{text!r} is no command: {error}") from None
    if command not in _COMMANDS:
        raise UsageError(f"the job runs no {command!r}, only: {', '.join(_COMMANDS)}")
    if command == "purge":  # it opens no application
        at = dict(pairs)
        return [command, *_COMMANDS[command], *given, at["--app"], "--warehouse", at["--warehouse"]]
    manifests = [*([folder] if command in _READ else []), *(["--origin", origin] if command in _APPLY else [])]
    return [*where, command, *_COMMANDS[command], *(granted if command == "doctor" else ()), *given, *manifests]


def operate(target: str, application: str | None, profile: str | None, command: Sequence[str]) -> None:
    """Let the job of a deployed application run a command, and print its output. Exits with 1 unless it succeeds."""
    from kaspr_delta.workspace import Operations, Workspace

    operations = Operations.of(Workspace.connect(profile), target, application)
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
