"""The request that a web view's first function gets."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde import json_text


class BadBodyError(ValueError):
    """The body is not the text or JSON that a function asked for. Uncaught it becomes the answer 400."""

    status_code = 400


class Query(dict[str, str]):
    """The parameters of a query string. Of several with one name the first counts; ``getall`` returns all of them."""

    def __init__(self, query_string: str) -> None:
        self._pairs = parse_qsl(query_string, keep_blank_values=True)
        super().__init__({name: self.getall(name)[0] for name, _ in self._pairs})

    def getall(self, name: str) -> list[str]:
        """All values of a name, in order; empty if it is absent."""
        return [value for key, value in self._pairs if key == name]


@dataclass(eq=False)
class Request(UserDict[str, Any]):
    """A request. As a mapping it holds the parameters of the path, and the values that functions put into it.

    ``user`` is named by a trusted proxy, such as Databricks Apps; None without one.
    """

    method: str
    path: str
    query_string: str
    headers: Headers
    match_info: dict[str, str]
    body: bytes = field(repr=False)
    user: str | None = None

    def __post_init__(self) -> None:
        super().__init__(self.match_info)

    @property
    def query(self) -> Query:
        """The parameters of the query string."""
        return Query(self.query_string)

    async def read(self) -> bytes:
        """The body."""
        return self.body

    async def text(self) -> str:
        """The body as UTF-8. Raises BadBodyError."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise BadBodyError(f"the body is not UTF-8: {error}") from None

    async def json(self) -> Any:
        """The body as JSON. Raises BadBodyError."""
        try:
            return json_text.parse(self.body)
        except SerializationError as error:
            msg = f"the body is {error}" if self.body else "the body is empty, and JSON was expected"
            raise BadBodyError(msg) from None
