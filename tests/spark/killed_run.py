"""Runs the order-enrichment application and kills itself, for good, at a given point of a given resource's batch.

    python killed_run.py MANIFESTS WAREHOUSE KIND/NAME POINT

POINT is ``before-commit`` (the batch is decided), ``committed`` (the append to the log stands, nothing is folded) or
``folded`` (everything is folded, which is not written down yet).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from kaspr_delta import Application
from kaspr_delta.engine.log import Log
from kaspr_delta.engine.progress import Progress
from kaspr_delta.engine.query import Query


def kill_at(owner: type, method: str, is_victim: Callable[..., bool]) -> None:
    """Let the process die where the method would begin, when it is called by the victim."""
    original = getattr(owner, method)

    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        if is_victim(self):
            print("killed at", method, flush=True)  # noqa: T201  the test reads it
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, *arguments, **named)

    setattr(owner, method, dying)


def main(manifests: str, warehouse: str, victim: str, point: str) -> None:
    """Run until killed."""
    app = Application.open(manifests, warehouse=warehouse)
    kind, _, name = victim.partition("/")
    plan = app.plan.join(name) if kind == "join" else app.plan.agent(name)
    if plan is None:
        sys.exit(f"there is no {victim}")
    if point == "before-commit":
        kill_at(Log, "append", lambda log: log.table == plan.log)
    elif point == "committed":
        kill_at(Query, "_fold", lambda query: str(query.resource.ref) == victim)
    else:
        kill_at(Progress, "record", lambda progress: progress.resource == victim)
    app.run()
    sys.exit(f"{victim} never came to {point}")


if __name__ == "__main__":
    main(*sys.argv[1:])
