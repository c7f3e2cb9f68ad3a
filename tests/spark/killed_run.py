"""Runs one resource of the order-enrichment application and kills itself, for good, around one of its writes.

    python killed_run.py MANIFESTS WAREHOUSE KIND/NAME TABLE before|after

What the resource depends on is run first, so that every write to TABLE from then on is the victim's.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from kaspr_delta import Application
from kaspr_delta.storage.delta import Delta

UPSTREAM = {
    "agent/ingest-orders": [],
    "join/orders-products-join": ["agent/ingest-orders", "agent/ingest-products"],
    "agent/process-enriched-orders": [
        "agent/ingest-orders",
        "agent/ingest-products",
        "join/orders-products-join",
    ],
}


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
    if UPSTREAM[victim]:
        app.run(only=UPSTREAM[victim])
    for method in ("append", "upsert"):
        kill_around(method, table, moment)
    app.run(only=[victim])
    sys.exit(f"{victim} never wrote to {table}")


if __name__ == "__main__":
    main(*sys.argv[1:])
