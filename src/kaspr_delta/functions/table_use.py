"""The uses that functions make of a table, read from their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.functions.syntax import tree_of

TableUse = Literal["reads", "writes", "perhaps writes"]

_READING = {"copy", "get", "items", "keys", "now", "prefix_scan", "value_at", "values"}
_WRITING = {"change", "clear", "update", "__delitem__", "__setitem__"}
_READING_AND_WRITING = {"pop", "popitem", "setdefault"}
# The entries of a table with windows have further methods, and `apply`, which writes.
_GIVING_ENTRIES = {"get", "items", "values"}
_READING_OF_ENTRY = {"current", "delta", "now", "value"}
_READERS = {"any", "bool", "enumerate", "iter", "len", "list", "max", "min", "repr", "set", "sorted", "str", "tuple"}
# By these, a function may reach a table without its name.
_OTHER_WAYS = {"eval", "exec", "globals", "locals", "vars"}


def table_uses(function: Snippet, parameter: str, *, windows: bool) -> frozenset[TableUse]:
    """The uses of the table that a function gets by the name ``parameter``.

    "perhaps writes" if the source does not tell, for example because it gives the table to another function.
    """
    return frozenset(_uses(tree_of(function.source), parameter, windows=windows))


def _uses(tree: ast.Module, parameter: str, *, windows: bool) -> Iterator[TableUse]:
    nodes = list(ast.walk(tree))
    above = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    for node in nodes:
        match node:
            case ast.Name(id=name) if name == parameter:
                yield from _use_here(node, above, windows=windows)
            case ast.Name(id=name) if name in _OTHER_WAYS:
                yield "perhaps writes"
            case ast.arguments():
                if node.vararg is not None or node.kwarg is not None:
                    yield "perhaps writes"
    if not any(isinstance(node, ast.arguments) for node in nodes):
        yield "perhaps writes"  # the function is imported


def _use_here(name: ast.Name, above: dict[ast.AST, ast.AST], *, windows: bool) -> tuple[TableUse, ...]:  # noqa: PLR0911
    user = above[name]
    match user:
        case ast.Subscript(ctx=ast.Load()) if user.value is name:
            return _use_of_entry(above[user]) if windows else ("reads",)
        case ast.Subscript() if user.value is name:
            return ("reads", "writes") if isinstance(above[user], ast.AugAssign) else ("writes",)
        case ast.Attribute(attr=attribute) if windows and attribute in _GIVING_ENTRIES:
            return "reads", "perhaps writes"
        case ast.Attribute(attr=attribute) if attribute in _READING:
            return ("reads",)
        case ast.Attribute(attr=attribute) if attribute in _WRITING:
            return ("writes",)
        case ast.Attribute(attr=attribute) if attribute in _READING_AND_WRITING:
            return "reads", "writes"
        case ast.Compare() | ast.For() | ast.comprehension() | ast.If() | ast.IfExp() | ast.UnaryOp():
            return ("reads",)
        case ast.Call(func=ast.Name(id=reader)) if reader in _READERS:
            return ("reads",)
    return "reads", "perhaps writes"


def _use_of_entry(user: ast.AST) -> tuple[TableUse, ...]:
    match user:
        case ast.Attribute(attr="apply"):
            return "reads", "writes"
        case ast.Attribute(attr=attribute) if attribute in _READING_OF_ENTRY:
            return ("reads",)
    return "reads", "perhaps writes"
