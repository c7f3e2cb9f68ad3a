"""Parse Python text to a syntax tree, in one thread at a time.

Python before 3.11.8 counts the depth of the tree that it builds in state that all threads share. While it builds a
tree, the garbage collector may let another thread run; if that thread builds one too, both fail with a SystemError.
"""

from __future__ import annotations

import ast
import threading

# Reentrant: the garbage collector may call this module again in the same thread.
_ONE_AT_A_TIME = threading.RLock()


def tree_of(source: str, file: str = "<manifest>") -> ast.Module:
    """The syntax tree of a text. Raises SyntaxError and the other errors of ``ast.parse``."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, file)
