"""Paths of web views: which of them a request's path is, and what its parameters are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from kaspr_delta.spec.webview import PARAMETER

_SEGMENT = "[^/]+"
# What stands for a slash that belongs to a value, not to the path: no text in UTF-8 has it.
_SLASH = "\udc2f"

SYSTEM_PATHS = frozenset({"/metrics", "/status", "/status/", "/healthz", "/openapi.json", "/ui"})
"""What the server itself answers, beside all below ``/ui/``."""


class Part(NamedTuple):
    """A piece of a path: text as it stands, or a parameter with the expression that its value matches."""

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


def shape_of(path: str) -> str:
    """A path without the names of its parameters: two of one shape match the same requests.

    >>> shape_of("/user/{id}") == shape_of("/user/{name}")
    True
    """
    return "".join(part.text if part.parameter is None else f"{{:{part.text}}}" for part in parts_of(path))


@dataclass(frozen=True, slots=True)
class Path:
    """A path that requests are compared with."""

    text: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> Path:
        """The path that a web view declares. Raises re.error for a parameter whose expression is none."""
        pieces = (
            re.escape(part.text) if part.parameter is None else f"(?P<{part.parameter}>{part.text})"
            for part in parts_of(text)
        )
        return cls(text, re.compile("".join(pieces)))

    def match(self, requested: str) -> dict[str, str] | None:
        """The parameters, if a request's path (see ``decoded``) is this one."""
        found = self.pattern.fullmatch(requested)
        if found is None:
            return None
        return {name: (value or "").replace(_SLASH, "/") for name, value in found.groupdict().items()}

    @property
    def precedence(self) -> tuple[tuple[bool, int], ...]:
        """What a path is sorted by: where several match, the one with more text and fewer parameters counts."""
        return tuple((part.parameter is not None, -len(part.text)) for part in parts_of(self.text))


def decoded(raw_path: bytes) -> str:
    """A request's path as text. Raises ValueError for one that is not UTF-8.

    >>> Path.of("/user/{id}").match(decoded(b"/user/a%2Fb%20c"))
    {'id': 'a/b c'}
    """
    return _SLASH.join(unquote_to_bytes(part).decode() for part in re.split(b"%2[fF]", raw_path))
