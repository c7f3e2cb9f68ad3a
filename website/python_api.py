"""The reference of the Python classes, made from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from kaspr_delta import Application
from kaspr_delta.api.explanation import Explanation
from kaspr_delta.api.join import JoinHandle, StreamJoinHandle
from kaspr_delta.api.table import TableHandle
from kaspr_delta.api.topic import ChangelogHandle, ChannelHandle, TopicHandle
from kaspr_delta.runtime.report import ResourceReport, RunReport

_CLASSES = (
    Application,
    TableHandle,
    TopicHandle,
    ChangelogHandle,
    JoinHandle,
    Explanation,
    StreamJoinHandle,
    ChannelHandle,
    RunReport,
    ResourceReport,
)


def python_page() -> str:
    """The classes that people use from notebooks and programs."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield "# Python\n"
    yield "`from kaspr_delta import Application` is all that has to be imported; an application gives the rest.\n"
    for one in _CLASSES:
        yield f"## {one.__name__}\n"
        yield _prose(one.__doc__ or "") + "\n"
        for name, member in _members(one).items():
            called = isinstance(member, property | classmethod) or inspect.isfunction(member)
            if called and not name.startswith("_"):
                yield f"### {one.__name__}.{name}\n"
                yield f"```python\n{_signature(name, member)}\n```\n"
                yield _prose(inspect.getdoc(member) or "") + "\n"


def _members(one: type) -> dict[str, Any]:
    """The members of a class and of those from which it inherits, in the order in which they are defined."""
    return {name: member for of in reversed(one.__mro__[:-1]) for name, member in vars(of).items()}


class _Text(str):
    """The text of an annotation, shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"{name}: {inspect.signature(member.fget).return_annotation}" if member.fget else name
    function = member.__func__ if isinstance(member, classmethod) else member
    signature = inspect.signature(function)
    parameters = [
        one.replace(annotation=_Text(one.annotation), default=_default(one.default))
        for one in signature.parameters.values()
        if one.name not in {"self", "cls"}
    ]
    shown = signature.replace(parameters=parameters, return_annotation=_Text(signature.return_annotation))
    return f"def {name}{shown}: ..."


def _default(value: Any) -> Any:
    """The default of a parameter; an object that only stands for none is shown as ``...``."""
    return _Text("...") if type(value) is object else value


def _prose(text: str) -> str:
    """A docstring as Markdown."""
    plain = re.sub(r"``(.+?)``", r"`\1`", inspect.cleandoc(text))
    return plain.replace("::\n", ":\n")
