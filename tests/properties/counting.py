"""A program in which two agents count in one table, until it is quiet or killed.

python counting.py WAREHOUSE BYTES    BYTES is the most bytes of a topic's files in a batch
"""

from __future__ import annotations

import sys
from pathlib import Path

from kaspr_delta import Application
from kaspr_delta.storage.limits import Limits

MANIFESTS = Path(__file__).with_name("counting.yaml")


def main(warehouse: str, limit: str) -> None:
    """Run until quiet, in batches of at most about ``limit`` bytes."""
    Application.open(MANIFESTS, warehouse=warehouse, limits=Limits(ordered_batch=limit)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
