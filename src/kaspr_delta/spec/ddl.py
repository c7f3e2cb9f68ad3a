"""Columns in Spark's DDL, read without Spark: manifests are also checked on machines without Java."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from kaspr_delta.spec.limits import DEEPEST_VALUE

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|([A-Za-z_]\w*)|(\d+)|([<>(),:]))", re.ASCII)
_SIMPLE = re.compile(
    "BOOLEAN|BYTE|TINYINT|SHORT|SMALLINT|INT|INTEGER|LONG|BIGINT|FLOAT|REAL|DOUBLE|DATE|TIMESTAMP|TIMESTAMP_LTZ"
    "|TIMESTAMP_NTZ|STRING|BINARY|DECIMAL|DEC|NUMERIC|CHAR|VARCHAR|VARIANT"
)
# Further names of types.
_CALLED = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}
# The characters for letters behind a backslash in a text. Others stand for themselves.
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
# The allowed counts of numbers in parentheses behind a type.
_SIZED = {"DECIMAL": (0, 1, 2), "CHAR": (1,), "VARCHAR": (1,)}


@dataclass(frozen=True, slots=True)
class Type:
    """A type by its main name, in capitals. ``inner`` are the types of an ARRAY's items or a MAP's keys and values."""

    name: str
    size: tuple[int, ...] = ()
    inner: tuple[Type, ...] = ()
    fields: tuple[Column, ...] = ()

    def __str__(self) -> str:
        if self.name == "STRUCT":
            return f"STRUCT<{', '.join(f'{quoted(one.name)}: {one.type}' for one in self.fields)}>"
        if self.inner:
            return f"{self.name}<{', '.join(map(str, self.inner))}>"
        return f"{self.name}({','.join(map(str, self.size))})" if self.size else self.name

    def parts(self) -> Iterator[Type]:
        """The type itself and all types in it."""
        yield self
        for part in (*self.inner, *(column.type for column in self.fields)):
            yield from part.parts()


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name without quotes, and its type."""

    name: str
    type: Type

    def __str__(self) -> str:
        return f"{quoted(self.name)} {self.type}"


def names_in(columns: Iterable[Column]) -> Iterator[str]:
    """The names of columns and of all fields in them."""
    for column in columns:
        yield column.name
        for part in column.type.parts():
            yield from (field.name for field in part.fields)


def quoted(name: str) -> str:
    """The name in backticks: SQL takes any name in this form."""
    return "`" + name.replace("`", "``") + "`"


def columns_of(text: str) -> tuple[Column, ...]:
    """The columns of a DDL text. Raises ValueError, which says what is wrong.

    >>> [str(column) for column in columns_of("order_id STRING, `unit price` DECIMAL(10, 2)")]
    ['`order_id` STRING', '`unit price` DECIMAL(10,2)']
    """
    return _read(text)[0]


def comments_of(text: str) -> dict[str, str]:
    r"""The comments of the columns of a DDL text, by column; those of fields in them are left out. Raises ValueError.

    >>> comments_of("order_id STRING COMMENT 'it\\'s unique', price DOUBLE, at STRUCT<day: DATE COMMENT 'in UTC'>")
    {'order_id': "it's unique"}
    """
    columns, comments = _read(text)
    found = {column.name: comments.get((column.name,), "") for column in columns}
    return {name: comment for name, comment in found.items() if comment}


def _read(text: str) -> tuple[tuple[Column, ...], dict[tuple[str, ...], str]]:
    """The columns of a DDL text, and the comments by the path of a column or field."""
    tokens = _tokens(text)
    if max(accumulate((one == "<") - (one == ">") for one in tokens), default=0) >= DEEPEST_VALUE:
        raise ValueError(f"a type is nested in more than {DEEPEST_VALUE} others")
    reader = _Reader(tokens)
    return reader.fields(""), reader.comments


def columns_of_json(fields: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The columns of a table from the JSON of Spark and Delta (``fields`` of a ``struct``)."""
    return tuple(Column(one["name"], _type_of_json(one["type"])) for one in fields)


def _type_of_json(kind: str | Mapping[str, Any]) -> Type:
    if isinstance(kind, str):
        name, _, size = kind.upper().partition("(")
        return Type(_CALLED.get(name, name), tuple(int(number) for number in re.findall(r"\d+", size)))
    match kind["type"]:
        case "array":
            return Type("ARRAY", inner=(_type_of_json(kind["elementType"]),))
        case "map":
            return Type("MAP", inner=(_type_of_json(kind["keyType"]), _type_of_json(kind["valueType"])))
        case "struct":
            return Type("STRUCT", fields=columns_of_json(kind["fields"]))
        case _:
            return Type(str(kind["type"]).upper())


def _tokens(text: str) -> list[str]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"'{text[at:].strip()[:20]}' is not understood")
        tokens.append(match[0].strip())
        at = match.end()
    return tokens


@dataclass(slots=True)
class _Reader:
    """Reads tokens from left to right. An empty token stands for the end."""

    tokens: list[str]
    at: int = field(default=0)
    # The column that is read, and the field in it, and so on; and the comments by such paths.
    path: tuple[str, ...] = field(default=())
    comments: dict[tuple[str, ...], str] = field(default_factory=dict)

    def fields(self, end: str) -> tuple[Column, ...]:
        """``name type, name type`` up to ``end``."""
        found = [self._field()]
        while self._peek() == ",":
            self._next()
            found.append(self._field())
        self._expect(end)
        counts = Counter(column.name.lower() for column in found)  # Delta's names differ in more than their case
        twice = next((column.name for column in found if counts[column.name.lower()] > 1), None)
        if twice is not None:
            raise ValueError(f"column '{twice}' stands there twice")
        return tuple(found)

    def _field(self) -> Column:
        name = self._next()
        if not re.match(r"[`A-Za-z_]", name):
            raise ValueError(f"expected the name of a column, found {_shown(name)}")
        if self._peek() == ":":
            self._next()
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        outer, self.path = self.path, (*self.path, name)
        column = Column(name, self._type())
        if self._peek().upper() == "NOT":
            self._next()
            self._expect("NULL")
        if self._peek().upper() == "COMMENT":
            self._next()
            self.comments[self.path] = self._text()
        self.path = outer
        return column

    def _text(self) -> str:
        token = self._next()
        if not token.startswith("'"):
            raise ValueError(f"expected the text of a comment in single quotes, found {_shown(token)}")
        return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", lambda match: _unescaped(match[1]), token[1:-1], flags=re.DOTALL)

    def _type(self) -> Type:
        name = self._next().upper()
        match name:
            case "ARRAY":
                self._expect("<")
                inner: tuple[Type, ...] = (self._type(),)
            case "MAP":
                self._expect("<")
                key = self._type()
                self._expect(",")
                inner = (key, self._type())
            case "STRUCT":
                self._expect("<")
                return Type("STRUCT", fields=self.fields(">"))
            case _ if _SIMPLE.fullmatch(name):
                name = _CALLED.get(name, name)
                return Type(name, self._size(name))
            case _:
                raise ValueError(f"{_shown(name)} is no type")
        self._expect(">")
        return Type(name, inner=inner)

    def _size(self, name: str) -> tuple[int, ...]:
        sizes: list[str] = []
        while name in _SIZED and self._peek() == ("," if sizes else "("):
            self._next()
            sizes.append(self._next())
        if sizes:
            self._expect(")")
        counts = _SIZED.get(name, (0,))
        if len(sizes) not in counts or not all(re.fullmatch(r"[0-9]{1,9}", size) for size in sizes):
            example = "10, 2" if name == "DECIMAL" else "10"
            raise ValueError(f"{name} needs its size as whole numbers, as in {name}({example})")
        if name == "DECIMAL":  # Spark's defaults
            sizes += ["10", "0"][len(sizes) :]
        return tuple(map(int, sizes))

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._next()
        if found.upper() != token:
            raise ValueError(f"expected {_shown(token)}, found {_shown(found)}")


def _unescaped(escape: str) -> str:
    """The character that stands for what comes behind a backslash in a text."""
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPED.get(escape, escape)


def _shown(token: str) -> str:
    return f"'{token}'" if token else "the end"
