"""The uses that functions make of a table, read from their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from kaspr_delta.functions.snippet import Snippet

TableUse = Literal["reads", "writes", "perhaps writes"]

_READS: tuple[TableUse, ...] = ("reads",)
_BOTH: tuple[TableUse, ...] = ("reads", "writes")
_UNKNOWN: tuple[TableUse, ...] = ("reads", "perhaps writes")
_METHODS: dict[str, tuple[TableUse, ...]] = {
    **dict.fromkeys(("copy", "get", "items", "keys", "now", "prefix_scan", "value_at", "values"), _READS),
    **dict.fromkeys(("change", "clear", "update", "__delitem__", "__setitem__"), ("writes",)),
    **dict.fromkeys(("pop", "popitem", "setdefault"), _BOTH),
}
# The entries of a table with windows have methods of their own. These methods of the table give entries away.
_METHODS_OF_ENTRY = {**dict.fromkeys(("current", "delta", "now", "value"), _READS), "apply": _BOTH}
_METHODS_WITH_WINDOWS = {**_METHODS, **dict.fromkeys(("get", "items", "values"), _UNKNOWN)}
_READERS = {"any", "bool", "enumerate", "iter", "len", "list", "max", "min", "repr", "set", "sorted", "str", "tuple"}
# By these, a function may reach a table without its name.
_OTHER_WAYS = {"eval", "exec", "globals", "locals", "vars"}


def table_uses(function: Snippet, parameter: str, *, windows: bool) -> frozenset[TableUse]:
    """The uses of the table that a function gets by the name ``parameter``.

    "perhaps writes" if the source does not tell, for example because it gives the table to another function.
    """
    return frozenset(_uses(function.tree, parameter, windows=windows))


def _uses(tree: ast.Module, parameter: str, *, windows: bool) -> Iterator[TableUse]:
    nodes = list(ast.walk(tree))
    above = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    for node in nodes:
        match node:
            case ast.Name(id=name) if name == parameter:
                yield from _use_here(node, above, windows=windows)
            case ast.Name(id=name) if name in _OTHER_WAYS:
                yield "perhaps writes"
            case ast.arguments() if node.vararg is not None or node.kwarg is not None:
                yield "perhaps writes"
    if not any(isinstance(node, ast.arguments) for node in nodes):
        yield "perhaps writes"  # the function is imported


def _use_here(name: ast.Name, above: dict[ast.AST, ast.AST], *, windows: bool) -> tuple[TableUse, ...]:
    user = above[name]
    match user:
        case ast.Subscript(ctx=ast.Load()) if user.value is name:
            method = getattr(above[user], "attr", "")
            return _METHODS_OF_ENTRY.get(method, _UNKNOWN) if windows else _READS
        case ast.Subscript() if user.value is name:
            return _BOTH if isinstance(above[user], ast.AugAssign) else ("writes",)
        case ast.Attribute(attr=method):
            return (_METHODS_WITH_WINDOWS if windows else _METHODS).get(method, _UNKNOWN)
        case ast.Compare() | ast.For() | ast.comprehension() | ast.If() | ast.IfExp() | ast.UnaryOp():
            return _READS
        case ast.Call(func=ast.Name(id=reader)) if reader in _READERS:
            return _READS
    return _UNKNOWN
