"""Parse Python text to a syntax tree, in one thread at a time.

Python before 3.11.8 counts the depth of the tree that it builds in state that all threads share. While it builds a
tree, the garbage collector may let another thread run; if that thread builds one too, both fail with a SystemError.
"""

from __future__ import annotations

import ast
import threading

DEEPEST = 200
"""The most levels of a tree. Python's own functions for trees take up to four calls a level, of about 1,000 calls."""

# Reentrant: the garbage collector may call this module again in the same thread.
_ONE_AT_A_TIME = threading.RLock()


def tree_of(source: str, file: str = "<manifest>") -> ast.Module:
    """The syntax tree of a text. Raises SyntaxError and the other errors of ``ast.parse``."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, file)


def deepest_line(tree: ast.Module) -> int | None:
    """The first line at which a tree has more than ``DEEPEST`` levels, None if there is none.

    An ``elif`` is no level, because nothing that reads trees takes it for one.
    """
    nodes: list[tuple[ast.AST, int]] = [(tree, 0)]
    while nodes:
        node, level = nodes.pop()
        if level > DEEPEST and isinstance(node, ast.expr | ast.stmt):
            return node.lineno
        chained = node.orelse if isinstance(node, ast.If) and len(node.orelse) == 1 else []
        nodes.extend((child, level if child in chained else level + 1) for child in ast.iter_child_nodes(node))
    return None
