"""Answers of web views, and the problems (RFC 9457) that the server answers when no view does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from kaspr_delta.serde import json_text
from kaspr_delta.serde.typed_values import plain_json
from kaspr_delta.spec.webview import HEADER_NAME, HEADER_VALUE

JSON, TEXT, BYTES = "application/json", "text/plain", "application/octet-stream"
PROBLEM = "application/problem+json"
_NO_BODY = frozenset({204, 205, 304})
_LOWEST, _HIGHEST = 200, 599
# The server sets these itself: with another value the next answer on the connection could not be read.
_OWN = frozenset({"content-length", "transfer-encoding", "connection"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. Header names are lower case; the body is ready to be sent."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @classmethod
    def of(
        cls,
        status: int,
        headers: Iterable[tuple[str, str]],
        value: Any,
        content_type: str | None = None,
        *,
        typed: bool = False,
    ) -> Answer:
        """A value as a response. Without a content type text is text, bytes are bytes, and the rest is JSON.

        A ``typed`` value becomes JSON as the values of typed columns do, see ``plain_json``. Raises TypeError for
        a value that the content type cannot carry, and SerializationError for a value that cannot be JSON.
        """
        body, kind = (b"", None) if status in _NO_BODY else _encoded(value, content_type, typed=typed)
        given = [(name.lower(), value) for name, value in headers if name.lower() not in _OWN]
        if kind is not None and not any(name == "content-type" for name, _ in given):
            given.append(("content-type", kind))
        return cls(status, tuple(given), body)


@dataclass(frozen=True, slots=True)
class Problem(Answer):
    """A problem with the request or the server, as JSON. ``admitted`` tells whether who asked may see pages."""

    detail: str
    admitted: bool


def problem(status: int, detail: str, headers: Iterable[tuple[str, str]] = (), *, admitted: bool = True) -> Problem:
    """The problem of a status. Browsers get it as a page."""
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    given = (*headers, ("content-type", PROBLEM))
    return Problem(status, given, json.dumps(problem).encode(), detail, admitted)


def checked_status(selected: Any) -> int:
    """The status that a statusCodeSelector returned. Raises ValueError for anything but a valid status."""
    if isinstance(selected, int) and not isinstance(selected, bool) and _LOWEST <= selected <= _HIGHEST:
        return int(selected)
    raise ValueError(f"statusCodeSelector must return a number from {_LOWEST} to {_HIGHEST}, not {selected!r}")


def checked_headers(selected: Any) -> tuple[tuple[str, str], ...]:
    """The headers that a headersSelector returned. Raises ValueError, and TypeError for no mapping or pairs."""
    pairs = selected.items() if isinstance(selected, Mapping) else selected or ()
    found = tuple((str(name), str(value)) for name, value in pairs)
    for name, value in found:
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise ValueError(f"headersSelector returned the header {name!r}: {value!r}, which no response can have")
    return found


def _encoded(value: Any, content_type: str | None, *, typed: bool) -> tuple[bytes, str]:
    chosen = content_type or _type_of(value)
    match chosen, value:
        case "application/json", _:
            return json_text.value_text(plain_json(value) if typed else value).encode(), JSON
        case "application/octet-stream", bytes() | None:
            return value or b"", BYTES
        case _, str() | None:
            text = (value or "").encode()  # UnicodeEncodeError, which is a ValueError, for half of a surrogate pair
            return text, BYTES if chosen == BYTES else f"{chosen}; charset=utf-8"
    raise TypeError(f"the body of a {chosen} response is text, not {type(value).__name__}")


def _type_of(value: Any) -> str:
    """The content type of a value if none is chosen."""
    if value is None or isinstance(value, str):
        return TEXT
    return BYTES if isinstance(value, bytes) else JSON
