"""Runs one resource of an application, and ends by SIGKILL before or after a write of the resource.

    python -m tests.spark.killed_run MANIFESTS WAREHOUSE KIND/NAME TABLE before|after

No other resource runs, so every write to TABLE is made by this one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from kaspr_delta import Application
from tests.few_rows import session_for_few_rows
from tests.spark.dying import die, watched_writes


def main(manifests: str, warehouse: str, victim: str, table: str, moment: str) -> None:
    """Run until killed."""
    app = Application.open(manifests, warehouse=warehouse, spark=session_for_few_rows(Path(warehouse, "killed.log")))

    def watch(arguments: tuple[Any, ...], now: str) -> None:
        if now == moment and any(isinstance(given, str) and given == table for given in arguments):
            die()

    with watched_writes(watch):
        app.run(only=[victim])
    sys.exit(f"{victim} never wrote to {table}")


if __name__ == "__main__":
    main(*sys.argv[1:])
