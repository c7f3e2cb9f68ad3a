"""The type that Spark infers for JSON (``schema_of_variant_agg``), as a type that columns can have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(r"`(?:[^`]|``)*`|\w+(?:\(\d+,\s*\d+\))?|[<>:,]")
# Types that no column can have; and fractions, which Python wrote as doubles.
_PLAIN = {"VOID": "STRING"}
_FRACTION = re.compile(r"DECIMAL\(\d+,\s*[1-9]\d*\)")


@dataclass
class _Tokens:
    """The tokens of a type, read one by one."""

    left: list[str]

    def take(self) -> str:
        return self.left.pop(0)

    def skip(self, token: str) -> bool:
        """Take the next token if it is this one."""
        found = self.left[:1] == [token]
        if found:
            self.take()
        return found


def column_type(inferred: str) -> str | None:
    """The type of a column that holds all values of an inferred type; None where nothing is known of any.

    Fractions are doubles, what was always null is text. An object becomes a struct, or stays a VARIANT where no struct
    has its fields: without any, or with names that differ in nothing but their case.

    >>> column_type("OBJECT<`a b`: DECIMAL(2,1), c: ARRAY<VOID>, d: VARIANT>")
    'STRUCT<`a b`: DOUBLE, `c`: ARRAY<STRING>, `d`: VARIANT>'
    """
    return None if inferred == "VOID" else _type(_Tokens(_TOKEN.findall(inferred)))


def _type(tokens: _Tokens) -> str:
    name = tokens.take()
    if name == "OBJECT":
        return _struct(list(_fields(tokens)))
    if name == "ARRAY" and tokens.skip("<"):
        element = _type(tokens)
        tokens.skip(">")
        return f"ARRAY<{element}>"
    return "DOUBLE" if _FRACTION.fullmatch(name) else _PLAIN.get(name, name)


def _fields(tokens: _Tokens) -> Iterator[tuple[str, str]]:
    tokens.skip("<")
    while tokens.left and not tokens.skip(">"):
        name = tokens.take()
        quoted = name if name.startswith("`") else f"`{name}`"
        tokens.skip(":")
        yield quoted, _type(tokens)
        tokens.skip(",")


def _struct(fields: list[tuple[str, str]]) -> str:
    names = {name.lower() for name, _ in fields}
    if not fields or len(names) < len(fields):
        return "VARIANT"
    return f"STRUCT<{', '.join(f'{name}: {kind}' for name, kind in fields)}>"
