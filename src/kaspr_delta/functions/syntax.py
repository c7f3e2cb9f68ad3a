"""Python text as a syntax tree, in one thread at a time.

Python before 3.11.8 counts the depth of the tree it makes in a place that all threads share. While it makes one, the
garbage collector may let another thread run; if that makes one too, both fail with a SystemError.
"""

from __future__ import annotations

import ast
import threading

# Of one thread the collector may come back here.
_ONE_AT_A_TIME = threading.RLock()


def tree_of(source: str, file: str = "<manifest>") -> ast.Module:
    """The statements of a text. Raises SyntaxError, and as ``ast.parse`` what else it cannot read."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, file)
