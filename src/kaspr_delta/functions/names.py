"""Names that a manifest's Python uses and nothing defines: by Python's own tables of symbols."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kaspr_delta.functions.snippet import Snippet

# Names that are made while the source runs.
_MADE_BY = {"exec", "eval", "globals", "vars"}
# And those by which a function reads all its names.
_READ_ALL = _MADE_BY | {"locals", "dir", "inspect"}


class Undefined(NamedTuple):
    """A name that is not defined, and where it is used first: line and column count from 1 within the source."""

    name: str
    line: int
    column: int


def undefined_names(snippet: Snippet, given: Collection[str]) -> tuple[Undefined, ...]:
    """The names that neither the source, ``given`` names nor Python define, in the order of their first use.

    None if the source may define names in ways that it does not show: by ``exec``, or by an import of all names.
    """
    nodes = list(ast.walk(snippet.tree))
    used = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    if any(node.id in _MADE_BY for node in used) or any(map(_imports_all, nodes)):
        return ()
    tables = list(_tables(symtable.symtable(snippet.source, "<manifest>", "exec")))
    known = {*_bound(tables), *given, *dir(builtins)}
    missing = {
        symbol.get_name()
        for table in tables
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module")
    } - known
    first: dict[str, Undefined] = {}
    for node in sorted(used, key=lambda node: (node.lineno, node.col_offset)):
        # Names with two underscores on each side are Python's own.
        if node.id in missing and not (node.id.startswith("__") and node.id.endswith("__")):
            first.setdefault(node.id, Undefined(node.id, node.lineno, node.col_offset + 1))
    return tuple(first.values())


def ignores(snippet: Snippet, parameter: str) -> bool:
    """Whether the entry point has this parameter and never reads it, as far as its source shows."""
    everything = symtable.symtable(snippet.source, "<manifest>", "exec")
    functions = [one for one in everything.get_children() if one.get_name() == snippet.entrypoint]
    if not functions or parameter not in functions[-1].get_identifiers():  # the last definition is the one that runs
        return False
    symbols = [symbol for table in _tables(functions[-1]) for symbol in table.get_symbols()]
    read = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    updated = (node.target for node in ast.walk(snippet.tree) if isinstance(node, ast.AugAssign))
    read |= {target.id for target in updated if isinstance(target, ast.Name)}
    return parameter not in read and not read & _READ_ALL


def bound_names(snippet: Snippet) -> frozenset[str]:
    """The names that the source binds at its top level, or as global names in its functions."""
    return _bound(_tables(symtable.symtable(snippet.source, "<manifest>", "exec")))


def _bound(tables: Iterable[symtable.SymbolTable]) -> frozenset[str]:
    return frozenset(
        symbol.get_name()
        for table in tables
        for symbol in table.get_symbols()
        if (symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace())
        and (table.get_type() == "module" or symbol.is_declared_global())
    )


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from _tables(inner)


def _imports_all(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
