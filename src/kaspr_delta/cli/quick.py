"""Commands that only look or append rows: what they need not import is left out."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

QUICK = frozenset({"produce", "consume", "table", "export", "status", "dead-letters", "get", "describe"})
"""Commands that run nobody's functions, and that, over a folder, seldom need Spark."""


class _NoPandas:
    """Finds everything but pandas."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Raise ImportError for pandas; None leaves other modules to other finders."""
        if name == "pandas":
            msg = "a quick command needs no pandas"
            raise ImportError(msg)
        return None


def spare_pandas() -> None:
    """Let pyarrow know of no pandas in this process.

    At its first conversion pyarrow imports pandas where it is installed, which takes a third of a command's time, only
    to recognize values of pandas. It tries once: here, in vain.
    """
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
