"""Runs one resource of an application and kills itself, for good, around one of its writes.

    python killed_run.py MANIFESTS WAREHOUSE KIND/NAME TABLE before|after

Nothing else runs, so that every write to TABLE is that resource's.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from kaspr_delta import Application
from kaspr_delta.storage.delta import Delta


def kill_around(method: str, victim_table: str, moment: str) -> None:
    """Let the process die before or after Delta's method has written to the table."""
    original = getattr(Delta, method)

    def dying(self: Delta, rows: Any, table: str, *arguments: Any, **named: Any) -> Any:
        if table == victim_table and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = original(self, rows, table, *arguments, **named)
        if table == victim_table:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(Delta, method, dying)


def main(manifests: str, warehouse: str, victim: str, table: str, moment: str) -> None:
    """Run until killed."""
    app = Application.open(manifests, warehouse=warehouse)
    for method in ("append", "upsert"):
        kill_around(method, table, moment)
    app.run(only=[victim])
    sys.exit(f"{victim} never wrote to {table}")


if __name__ == "__main__":
    main(*sys.argv[1:])
