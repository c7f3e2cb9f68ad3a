"""Batches whose folds wait for others are decided as if each had been folded at once."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application
from kaspr_delta.engine.foreign_key_join.join import ForeignKeyJoin
from kaspr_delta.engine.log import BatchId
from kaspr_delta.engine.resource import Folded
from kaspr_delta.engine.rows import Rows
from tests.properties.following import JOINS, History, never_due
from tests.properties.killed_with_tail import STEPS, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parents[2]
MANIFESTS = _ROOT / "tests" / "spark" / "applications" / "inner-and-left.yaml"

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_what_is_decided_over_unfolded_batches_is_what_their_folds_would_give(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    together: list[int] = []
    fold = ForeignKeyJoin.fold_together

    def counted(join: ForeignKeyJoin, batches: Sequence[tuple[BatchId, Rows]]) -> Sequence[Folded]:
        together.append(len(batches))
        return fold(join, batches)

    monkeypatch.setattr(ForeignKeyJoin, "fold_together", counted)
    never_due(monkeypatch)
    app = Application.open(MANIFESTS, warehouse=tmp_path, spark=spark)
    history = History(app, random.Random(seed))  # noqa: S311  no secret
    history.step(8)
    history.step(8)
    with history.following():
        history.wait()
        # Few rows, then a batch of more rows than one holds on the driver, then few over those.
        for keys in (8, 8, 8, 8, 2_500, 8, 8):
            history.step(keys)
            history.wait()
        assert not together
    assert len(together) == len(JOINS)
    assert min(together) > 3, together
    history.assert_folded()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_batches_that_waited_for_their_fold_at_a_kill_are_folded_by_the_next_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.properties.killed_with_tail", str(MANIFESTS), str(tmp_path), "7"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=500, check=False)  # noqa: S603
    assert done.returncode == -9, done.stdout + done.stderr
    history = rows_of(7, Application.open(MANIFESTS, warehouse=tmp_path, spark=spark))
    for _ in range(STEPS):
        history.draw(8)
    assert history.stored("left") != history.sides.joined("left")
    history.app.run()
    history.assert_folded()
