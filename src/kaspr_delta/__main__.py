"""The command ``kaspr-delta``, also as ``python -m kaspr_delta``.

Commands that only look or append rows leave out what they need not import.
"""

import gc
import os
import signal
import sys
from importlib.machinery import ModuleSpec

# Commands that run nobody's functions, and that, over a folder, seldom need Spark.
_QUICK = frozenset({"produce", "consume", "table", "export", "status", "dead-letters", "get", "describe"})

# New objects at which garbage is collected in a quick command: more than its modules have, of which none is garbage.
_OBJECTS = 500_000


class _NoPandas:
    """Finds everything but pandas."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Raise ImportError for pandas; None leaves other modules to other finders."""
        if name == "pandas":
            msg = "a quick command needs no pandas"
            raise ImportError(msg)
        return None


def _spare_pandas() -> None:
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


def main() -> None:
    """Run the command line. While it is loaded Ctrl-C ends the process, with the exit code that shells give that."""
    signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS)
    from kaspr_delta.cli import command_in
    from kaspr_delta.cli import main as run

    if command_in(sys.argv[1:]) in _QUICK:
        _spare_pandas()
    else:
        gc.set_threshold(*usual)
    run()


if __name__ == "__main__":
    main()
