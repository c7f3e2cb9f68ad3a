"""The reference of the command line, made like ``--help`` from the functions of the commands."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from typer.models import ArgumentInfo, OptionInfo

from kaspr_delta.cli import application

_EVERYWHERE = {"warehouse", "app"}


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a command, as declared for typer."""

    name: str
    kind: Any
    default: Any
    info: ArgumentInfo | OptionInfo

    @property
    def is_option(self) -> bool:
        return isinstance(self.info, OptionInfo)

    @property
    def value(self) -> str:
        """The placeholder of its value: the choices, or a word."""
        if self.info.metavar:
            return self.info.metavar.strip("[]")
        if typing.get_origin(self.kind) is typing.Literal:
            return "|".join(typing.get_args(self.kind))
        return "" if self.kind is bool else self.name.upper()

    @property
    def written(self) -> str:
        """Its form in a command line."""
        if not self.is_option:
            return self.value if self.default is inspect.Parameter.empty else f"[{self.value}]"
        declared = map(str, (self.info.default, *(self.info.param_decls or ())))  # typer takes the first as a default
        names = [name for name in declared if name.startswith("-")] or [f"--{self.name.replace('_', '-')}"]
        return f"{', '.join(names)} {self.value}".strip()

    @property
    def meaning(self) -> str:
        """Its purpose and its default."""
        plain = getattr(self.default, "value", self.default)
        given = plain not in {None, False, inspect.Parameter.empty, "-"}
        return (self.info.help or "") + (f" `{plain}` unless given." if given else "")


def commands_page() -> str:
    """All commands with their arguments, options and examples."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield "# Commands\n"
    yield "Every command takes `--warehouse` and `--app`, before or behind its name. `kaspr-delta COMMAND --help` shows"
    yield "what stands here. `kaspr-delta --install-completion` makes the shell complete commands, options and names.\n"
    for command in application.registered_commands:
        if command.callback is not None:
            yield from _command(command.name or command.callback.__name__, command.callback)


def _command(name: str, function: Callable[..., Any]) -> Iterator[str]:
    parameters = list(_parameters(function))
    arguments = " ".join(one.written for one in parameters if not one.is_option)
    yield f"## {name}\n"
    yield f"```console\n$ kaspr-delta {name} {arguments}".rstrip() + "\n```\n"
    yield inspect.cleandoc(function.__doc__ or "") + "\n"
    if parameters:
        yield "| argument or option | is |\n|---|---|"
        yield from (_row(f"`{one.written}`", one.meaning) for one in parameters)
        yield ""


def _parameters(function: Callable[..., Any]) -> Iterator[_Parameter]:
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = hints[name]
        found = [
            info for info in getattr(annotation, "__metadata__", ()) if isinstance(info, ArgumentInfo | OptionInfo)
        ]
        if found and name not in _EVERYWHERE:
            yield _Parameter(name, _plain(annotation.__origin__), parameter.default, found[0])


def _plain(kind: Any) -> Any:
    """A type without ``None``."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return next(one for one in typing.get_args(kind) if one is not types.NoneType)
    return kind


def _row(*cells: str) -> str:
    """A row of a table. Bars in code need no escape."""
    return "| " + " | ".join(re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", cell) for cell in cells) + " |"
