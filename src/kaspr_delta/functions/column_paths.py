"""Keys that are just columns of a row: told as such, or found in a Python function that only picks them.

Where rows have columns, Spark computes such a key by itself; no Python runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kaspr_delta.functions.snippet import Snippet

Path = tuple[str, ...]
"""The way to a value in a row: a column, a field of it, a field of that."""

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
    """What a key consists of; ``several``: it is a list. ``told``: not found in a function, but written as columns."""

    paths: tuple[Path, ...]
    several: bool
    told: bool = False

    @classmethod
    def of_names(cls, names: tuple[str, ...], *, several: bool) -> Picked:
        """Columns as they are written: `customer.id` is a field of a column."""
        return cls(tuple(tuple(name.split(".")) for name in names), several, told=True)

    @property
    def function(self) -> Snippet:
        """The same in Python, for rows in JSON. What is not there is None, and then there is no key."""
        arguments = [", ".join(map(repr, path)) for path in self.paths]
        if not self.several:
            return Snippet(_PICK + _ONE.format(name="column", path=arguments[0]), "column")
        picks = ", ".join(f"pick(value, {path})" for path in arguments)
        return Snippet(_PICK + _SEVERAL.format(name="columns", picks=picks), "columns")

    def __str__(self) -> str:
        return ", ".join(".".join(path) for path in self.paths)


def picked(function: Snippet) -> Picked | None:
    """The columns that a function returns, if that is all it does.

    That is ``value["a"]`` or ``value.get("a")``, or a tuple or list of such. Fields of fields are left to Python, which
    fails where what they are in is not there.
    """
    statements = ast.parse(function.source).body
    if len(statements) != 1 or not isinstance(definition := statements[0], ast.FunctionDef):
        return None
    match definition:
        case ast.FunctionDef(
            name=function.entrypoint, args=ast.arguments(vararg=None, kwarg=None, defaults=[]), decorator_list=[]
        ) if definition.args.args:
            parameter = definition.args.args[0].arg
        case _:
            return None
    body = [statement for statement in definition.body if not _is_text(statement)]
    match body:
        case [ast.Return(value=ast.Tuple(elts=parts) | ast.List(elts=parts))] if parts:
            names = tuple(_column(part, parameter) for part in parts)
            return Picked(tuple(_known(names)), several=True) if None not in names else None
        case [ast.Return(value=ast.expr() as returned)]:
            name = _column(returned, parameter)
            return None if name is None else Picked(((name,),), several=False)
    return None


def _known(names: tuple[str | None, ...]) -> Iterator[Path]:
    yield from ((name,) for name in names if name is not None)


def _column(expression: ast.expr, parameter: str) -> str | None:
    match expression:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(column))) if name == parameter:
            return column
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="get"),
            args=[ast.Constant(value=str(column))],
            keywords=[],
        ) if name == parameter:
            return column
    return None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
