"""Runs one resource of an application and kills itself, for good, around one of its writes.

    python -m tests.spark.killed_run MANIFESTS WAREHOUSE KIND/NAME TABLE before|after

Nothing else runs, so that every write to TABLE is that resource's.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from kaspr_delta import Application
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.delta_rs import DeltaRs
from tests.few_rows import session_for_few_rows


def kill_around(writer: type, method: str, victim_table: str, moment: str) -> None:
    """Let the process die before or after a method has written to the table, which is one of its two arguments."""
    original = getattr(writer, method)

    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        mine = any(isinstance(given, str) and given == victim_table for given in arguments[:2])
        if mine and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = original(self, *arguments, **named)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(writer, method, dying)


def main(manifests: str, warehouse: str, victim: str, table: str, moment: str) -> None:
    """Run until killed."""
    app = Application.open(manifests, warehouse=warehouse, spark=session_for_few_rows(Path(warehouse, "killed.log")))
    for writer, method in ((Delta, "append"), (Delta, "upsert"), (DeltaRs, "append")):
        kill_around(writer, method, table, moment)
    app.run(only=[victim])
    sys.exit(f"{victim} never wrote to {table}")


if __name__ == "__main__":
    main(*sys.argv[1:])
