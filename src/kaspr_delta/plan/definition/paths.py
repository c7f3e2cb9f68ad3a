"""Paths of web views: match the path of a request and extract its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from kaspr_delta.spec.webview import PARAMETER

_SEGMENT = "[^/]+"
# Stands for a slash that belongs to a value, not to the path. No text in UTF-8 contains it.
_SLASH = "\udc2f"

SYSTEM_PATHS = frozenset({"/metrics", "/status", "/status/", "/healthz", "/openapi.json", "/ui"})
"""The paths that the server itself answers, besides all paths below ``/ui/``."""


class Part(NamedTuple):
    """A piece of a path: literal text, or a parameter with the regular expression (``text``) of its value."""

    text: str
    parameter: str | None = None


def parts_of(path: str) -> Iterator[Part]:
    """The pieces of a path, in order."""
    end = 0
    for match in PARAMETER.finditer(path):
        if match.start() > end:
            yield Part(path[end : match.start()])
        yield Part(match[2] or _SEGMENT, match[1])
        end = match.end()
    if end < len(path):
        yield Part(path[end:])


def _taken_by(expression: str) -> int:
    if expression == _SEGMENT:
        return 1
    return 2 if re.fullmatch(expression, "a/b") else 0


def shape_of(path: str) -> str:
    """A path without the names of its parameters: two paths of one shape match the same requests.

    >>> shape_of("/user/{id}") == shape_of("/user/{name}")
    True
    """
    return "".join(part.text if part.parameter is None else f"{{:{part.text}}}" for part in parts_of(path))


@dataclass(frozen=True, slots=True)
class Path:
    """A declared path with its compiled pattern."""

    text: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> Path:
        """The path that a web view declares. Raises re.error if the expression of a parameter is invalid."""
        pieces = (
            re.escape(part.text) if part.parameter is None else f"(?P<{part.parameter}>{part.text})"
            for part in parts_of(text)
        )
        return cls(text, re.compile("".join(pieces)))

    def match(self, requested: str) -> dict[str, str] | None:
        """The parameters if the path of a request (see ``decoded``) matches, otherwise None."""
        found = self.pattern.fullmatch(requested)
        if found is None:
            return None
        return {name: (value or "").replace(_SLASH, "/") for name, value in found.groupdict().items()}

    @property
    def precedence(self) -> tuple[int, int, tuple[bool, ...]]:
        """The sort key: of several matching paths the first wins.

        That is the one with more text; then the one whose parameters take less: an expression, a segment, or several
        segments; then the one whose text comes earlier.
        """
        parts = list(parts_of(self.text))
        text = sum(len(part.text) for part in parts if part.parameter is None)
        taken = sum(_taken_by(part.text) for part in parts if part.parameter is not None)
        return -text, taken, tuple(part.parameter is not None for part in parts)


def decoded(raw_path: bytes) -> str:
    """The path of a request as text. Raises ValueError if it is not UTF-8.

    >>> Path.of("/user/{id}").match(decoded(b"/user/a%2Fb%20c"))
    {'id': 'a/b c'}
    """
    return _SLASH.join(unquote_to_bytes(part).decode() for part in re.split(b"%2[fF]", raw_path))
