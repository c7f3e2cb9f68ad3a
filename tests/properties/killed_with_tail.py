"""``python -m tests.properties.killed_with_tail MANIFESTS WAREHOUSE SEED MOMENT``: kills itself at a fold."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.progress import BatchReport, Progress
from kaspr_delta.engine.joins.foreign_key.foreign_key_join import ForeignKeyJoin
from kaspr_delta.storage.layout import state_ref
from tests.properties.following import FOLD_AT_ONCE, History, postpone_folds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("left", "right", "left", "right")


def seeded_history(seed: int, app: Application) -> History:
    """A history whose steps depend only on the seed."""
    return History(app, random.Random(seed))  # noqa: S311  no secret


def main(manifests: str, warehouse: str, seed: str, moment: str) -> None:
    """Write the steps, each a batch of its own, and kill this process.

    ``before``: before the pending batches are folded. ``after``: before progress records that fold. ``states behind``:
    after all folds except those of the deferred states.
    """
    monkeypatch = pytest.MonkeyPatch()
    limits = FOLD_AT_ONCE if moment == "states behind" else None
    if limits is None:
        postpone_folds(monkeypatch)
    history = seeded_history(int(seed), Application.open(manifests, warehouse=Path(warehouse), limits=limits))
    with history.following():
        for side in STEPS:
            history.step(side, 8)
            history.wait()
        if moment == "before":
            die()
        monkeypatch.setattr(ForeignKeyJoin, "fold_states", die)
        recorded = Progress.record

        def record(progress: Progress, spark: SparkSession, batch: BatchId, report: BatchReport) -> None:
            if not progress.resource.endswith(state_ref("")):
                die()
            recorded(progress, spark, batch, report)

        monkeypatch.setattr(Progress, "record", record)


def die(*_: object, **__: object) -> None:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
