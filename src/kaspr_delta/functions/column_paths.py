"""Keys that are columns of a row, or text made of columns: declared in the manifest, or found in a function.

If rows have columns, Spark computes such a key without Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kaspr_delta.functions.snippet import Snippet

Path = tuple[str, ...]
"""The path to a value in a row: a column, a field of it, a field of that field."""

_STEP = re.compile(r"(?:`(?:[^`]|``)+`|[^.])+")


def path_of(text: str) -> Path:
    """The path that a text with dots names; a name in backticks may have dots.

    >>> path_of("shop.country"), path_of("left.`unit.price`")
    (('shop', 'country'), ('left', 'unit.price'))
    """
    return tuple(
        step[1:-1].replace("``", "`") if step[0] == step[-1] == "`" != step else step
        for step in _STEP.findall(text) or [text]
    )


# The function is called once per combination of null strict columns, to get its error: 7 times for three columns.
_MOST_STRICT = 3


class Piece(NamedTuple):
    """A column in a text: converted by ``str``, or, if ``strict``, a column that must be text already."""

    path: Path
    strict: bool


@dataclass(frozen=True, slots=True)
class Text:
    """Text made of columns and constants, in order."""

    pieces: tuple[Piece | str, ...]

    @property
    def columns(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Piece))

    def __str__(self) -> str:
        shown = (piece if isinstance(piece, str) else f"{{{'.'.join(piece.path)}}}" for piece in self.pieces)
        return f"'{''.join(shown)}'"


Part = Path | Text
"""A key, or one item of a key that is a list."""

_PICK = """\
def pick(value, *path):
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value

"""
_ONE = "def {name}(value):\n    return pick(value, {path})\n"
_SEVERAL = "def {name}(value):\n    key = [{picks}]\n    return None if any(part is None for part in key) else key\n"


@dataclass(frozen=True, slots=True)
class Picked:
    """The parts of a key. ``several``: the key is a list. ``declared``: the manifest names them."""

    parts: tuple[Part, ...]
    several: bool
    declared: bool = False

    @classmethod
    def of_names(cls, names: tuple[str, ...], *, several: bool) -> Picked:
        """A key of declared columns: ``customer.id`` is the field ``id`` of the column ``customer``."""
        return cls(tuple(map(path_of, names)), several, declared=True)

    @property
    def function(self) -> Snippet:
        """The same key in Python, for declared columns, also for rows in JSON. A missing value makes the key None."""
        arguments = [", ".join(map(repr, path)) for path in self.parts if isinstance(path, tuple)]
        if not self.several:
            return Snippet(_PICK + _ONE.format(name="column", path=arguments[0]), "column")
        picks = ", ".join(f"pick(value, {path})" for path in arguments)
        return Snippet(_PICK + _SEVERAL.format(name="columns", picks=picks), "columns")

    @property
    def strict(self) -> tuple[Path, ...]:
        """The columns that must be text already, each once: the function fails if one is null."""
        texts = (part for part in self.parts if isinstance(part, Text))
        return tuple(dict.fromkeys(piece.path for text in texts for piece in text.columns if piece.strict))

    def __str__(self) -> str:
        return ", ".join(str(part) if isinstance(part, Text) else ".".join(part) for part in self.parts)


def picked(function: Snippet) -> Picked | None:
    """The columns, or text made of columns, that a function returns; None if it does anything else.

    A list or tuple of them is a key of several columns. Fields of columns are not recognised: the function would fail
    if the column is null.
    """
    parameter, returned = _only_returns(function)
    several = isinstance(returned, ast.Tuple | ast.List)
    items = returned.elts if isinstance(returned, ast.Tuple | ast.List) else filter(None, [returned])
    found = [_part(item, parameter) for item in items]
    parts = tuple(part for part in found if part is not None)
    key = Picked(parts, several)
    return key if parts and len(parts) == len(found) and len(key.strict) <= _MOST_STRICT else None


def _only_returns(function: Snippet) -> tuple[str, ast.expr | None]:
    """The name of a function's first parameter, and the expression that it returns; None if it does anything else."""
    match function.tree.body:
        case [
            ast.FunctionDef(
                name=function.entrypoint,
                args=ast.arguments(args=[first, *others], vararg=None, kwonlyargs=[], kwarg=None, defaults=[]),
                decorator_list=[],
                body=[*about, ast.Return(value=returned)],
            )
        ] if all(map(_is_text, about)) and "str" not in {one.arg for one in (first, *others)}:
            return first.arg, returned
    return "", None


def _part(expression: ast.expr, parameter: str) -> Part | None:
    pieces = tuple(_pieces(expression, parameter))
    match pieces:
        case [Piece(path, strict=True)]:
            return path
    text = Text(tuple(piece for piece in pieces if piece is not None))
    return text if text.columns and None not in pieces else None


def _pieces(expression: ast.expr, parameter: str) -> Iterator[Piece | str | None]:
    """The pieces of a column, of an f-string or of added strings; None stands for any other expression."""
    match expression:
        case ast.Constant(value=str(constant)):
            yield constant
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _pieces(value, parameter)
        case (
            ast.FormattedValue(value=value, conversion=-1 | 115, format_spec=None)  # 115 is `!s`
            | ast.Call(func=ast.Name(id="str"), args=[value], keywords=[])
        ):
            yield _column(value, parameter, strict=False)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _pieces(left, parameter)
            yield from _pieces(right, parameter)
        case _:
            yield _column(expression, parameter, strict=True)


def _column(expression: ast.expr, parameter: str, *, strict: bool) -> Piece | None:
    """The column that ``value["name"]`` or ``value.get("name")`` is."""
    match expression:
        case (
            ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(column)))
            | ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"),
                args=[ast.Constant(value=str(column))],
                keywords=[],
            )
        ) if name == parameter:
            return Piece((column,), strict)
    return None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
