"""Columns as Spark's DDL writes them, read without Spark: manifests are checked where there is no Java."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|([A-Za-z_]\w*)|(\d+)|([<>(),:]))", re.ASCII)
_SIMPLE = re.compile(
    "BOOLEAN|BYTE|TINYINT|SHORT|SMALLINT|INT|INTEGER|LONG|BIGINT|FLOAT|REAL|DOUBLE|DATE|TIMESTAMP|TIMESTAMP_LTZ"
    "|TIMESTAMP_NTZ|STRING|BINARY|DECIMAL|DEC|NUMERIC|CHAR|VARCHAR|VARIANT"
)
# How many numbers may stand in parentheses behind a type.
_SIZED = {"DECIMAL": (0, 1, 2), "DEC": (0, 1, 2), "NUMERIC": (0, 1, 2), "CHAR": (1,), "VARCHAR": (1,)}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name as it is called, and its type as it is written."""

    name: str
    type: str


def columns_of(text: str) -> tuple[Column, ...]:
    """The columns of a DDL text. Raises ValueError, which says what is wrong.

    >>> columns_of("order_id STRING, `unit price` DECIMAL(10, 2)")
    (Column(name='order_id', type='STRING'), Column(name='unit price', type='DECIMAL(10,2)'))
    """
    reader = _Reader(_tokens(text))
    columns = reader.fields("")
    names = [column.name.lower() for column in columns]
    twice = next((column.name for column in columns if names.count(column.name.lower()) > 1), None)
    if twice is not None:
        msg = f"column '{twice}' stands there twice"
        raise ValueError(msg)
    return columns


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            msg = f"'{text[at:].strip()[:20]}' is not understood"
            raise ValueError(msg)
        tokens.append(match[0].strip())
        at = match.end()
    return tokens


@dataclass(slots=True)
class _Reader:
    """Reads tokens from left to right. An empty token stands for the end."""

    tokens: list[str]
    at: int = field(default=0)

    def fields(self, end: str) -> tuple[Column, ...]:
        """``name type, name type`` up to ``end``."""
        found = [self._field()]
        while self._peek() == ",":
            self._next()
            found.append(self._field())
        self._expect(end)
        return tuple(found)

    def _field(self) -> Column:
        name = self._next()
        if not re.match(r"[`A-Za-z_]", name):
            msg = f"expected the name of a column, found {_shown(name)}"
            raise ValueError(msg)
        if self._peek() == ":":
            self._next()
        column = Column(name[1:-1].replace("``", "`") if name.startswith("`") else name, self._type())
        if self._peek().upper() == "NOT":
            self._next()
            self._expect("NULL")
        if self._peek().upper() == "COMMENT":
            self._next()
            self._next()
        return column

    def _type(self) -> str:
        name = self._next().upper()
        match name:
            case "ARRAY":
                self._expect("<")
                inner = self._type()
            case "MAP":
                self._expect("<")
                key = self._type()
                self._expect(",")
                inner = f"{key}, {self._type()}"
            case "STRUCT":
                self._expect("<")
                inner = ", ".join(f"`{one.name}`: {one.type}" for one in self.fields(">"))
                return f"STRUCT<{inner}>"
            case _ if _SIMPLE.fullmatch(name):
                return name + self._size(name)
            case _:
                msg = f"{_shown(name)} is no type"
                raise ValueError(msg)
        self._expect(">")
        return f"{name}<{inner}>"

    def _size(self, name: str) -> str:
        sizes: list[str] = []
        if name in _SIZED and self._peek() == "(":
            self._next()
            sizes.append(self._next())
            while self._peek() == ",":
                self._next()
                sizes.append(self._next())
            self._expect(")")
        if len(sizes) not in _SIZED.get(name, (0,)) or not all(size.isdecimal() for size in sizes):
            msg = f"{name} needs its size as whole numbers, as in {name}(10{', 2' if 2 in _SIZED[name] else ''})"  # noqa: PLR2004
            raise ValueError(msg)
        return f"({','.join(sizes)})" if sizes else ""

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._next()
        if found.upper() != token:
            msg = f"expected {_shown(token)}, found {_shown(found)}"
            raise ValueError(msg)


def _shown(token: str) -> str:
    return f"'{token}'" if token else "the end"
