"""Batches whose folds wait for others are decided as if each had been folded at once, however many rows they have."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.resource import Folded
from kaspr_delta.engine.joins import touched
from kaspr_delta.engine.joins.foreign_key import emit, known, subscriptions
from kaspr_delta.engine.joins.foreign_key.join import ForeignKeyJoin
from kaspr_delta.engine.rows import rows
from kaspr_delta.engine.rows.rows import Rows
from tests.properties.following import JOINS, History, always_due, never_due
from tests.properties.killed_with_tail import STEPS, rows_of
from tests.properties.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parents[2]
MANIFESTS = _ROOT / "tests" / "spark" / "applications" / "inner-and-left.yaml"

pytestmark = pytest.mark.spark


def take_for_many(patched: pytest.MonkeyPatch, *, few: int, some: int, changes: int) -> None:
    """Let rows be few, some or many, and changes be held, where there are far less of them than usual."""
    for module in (rows, known, subscriptions):
        patched.setattr(module, "FEW_ROWS", few)
    for module in (emit, known, subscriptions):
        patched.setattr(module, "SOME_ROWS", some)
    patched.setattr(known, "MANY_ROWS", some)
    patched.setattr(touched, "_KNOWN_CHANGES", changes)


LIMITS = {"few": 3, "some": 9, "changes": 30}
UNKNOWN = {"few": 0, "some": 0, "changes": 0}


@pytest.mark.parametrize(
    ("seed", "limits"),
    [
        (1, LIMITS),
        *(pytest.param(seed, LIMITS, marks=pytest.mark.slow) for seed in range(2, 6)),
        pytest.param(6, UNKNOWN, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("folds", ["at the end", "but for states"])
def test_what_is_decided_over_a_tail_is_what_its_folds_would_give(  # noqa: PLR0917  fixtures, and what varies
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    limits: dict[str, int],
    folds: str,
) -> None:
    waited = never_due if folds == "at the end" else always_due
    together: list[int] = []
    fold = ForeignKeyJoin.fold_together

    def counted(
        self: ForeignKeyJoin, batches: Sequence[tuple[BatchId, Rows]], *, states: bool = True
    ) -> Sequence[Folded]:
        together.append(len(batches))
        assert not states  # they are folded alone, where the run ends
        return fold(self, batches, states=states)

    monkeypatch.setattr(ForeignKeyJoin, "fold_together", counted)
    waited(monkeypatch)
    take_for_many(monkeypatch, **limits)
    history = History(Application.open(MANIFESTS, warehouse=tmp_path, spark=spark), random.Random(seed))  # noqa: S311
    history.step("left", 12)
    history.step("right", 12)
    with history.following():
        history.wait()
        for side, changes in (("left", 2), ("right", 6), ("left", 12), ("right", 1), ("left", 30), ("right", 2)):
            history.step(side, changes)
            history.wait()
        assert bool(together) == (waited is always_due)
    if waited is never_due:
        assert len(together) == len(JOINS)
        assert min(together) > 3, together
    else:
        assert sum(together) > 3 * len(JOINS)
    history.assert_folded()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("moment", ["before", "after", "states behind"])
def test_a_tail_that_a_kill_left_is_folded_by_the_next_run(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    command = [sys.executable, "-m", "tests.properties.killed_with_tail", str(MANIFESTS), str(tmp_path), "7", moment]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=500, check=False)  # noqa: S603
    assert done.returncode == -9, done.stdout + done.stderr
    history = rows_of(7, Application.open(MANIFESTS, warehouse=tmp_path, spark=spark))
    for side in STEPS:
        history.draw(side, 8)
    shown = [Shown(history.app, name) for name in JOINS]
    folded = [one.result() == history.sides.joined(one.join) for one in shown]
    assert any(folded) == (moment != "before")
    changes = [len(one.feed()) for one in shown]
    if moment == "states behind":
        assert any(one.subscribed() != history.sides.foreign_keys() for one in shown)
    history.app.run()
    history.assert_folded()
    unchanged = [len(one.feed()) == before for one, before in zip(shown, changes, strict=True)]
    assert unchanged == folded  # of what was folded no older row came back for a moment
