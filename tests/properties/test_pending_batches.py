"""Decisions over pending batches are the same as if each batch had been folded at once, whatever its size."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.engine.batch import folding
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.decision import Folded, LoggedBatch
from kaspr_delta.engine.batch.folding import Folding
from kaspr_delta.engine.batch.progress import BatchReport, record_progress
from kaspr_delta.engine.joins.foreign_key.foreign_key_join import ForeignKeyJoin
from kaspr_delta.storage.layout import state_ref
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.tables import Tables
from tests.continuous import running
from tests.properties.naive_join import Sides, text
from tests.properties.shown import JOINS, MANIFESTS, TABLES, JoinReader
from tests.spark.dying import die

_ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.further]

_KEYS = 20
_PATIENCE = 120


def postpone_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pending batches wait until the run ends."""
    monkeypatch.setattr(Folding, "due", property(lambda _: False))


FOLD_AT_ONCE = Limits(fold_rest=0)
"""Limits with which batches are folded at once. States are still deferred."""


@dataclass
class History:
    """Random changes of two tables, and both joins over them."""

    app: Application
    dice: random.Random
    sides: Sides = field(default_factory=Sides)

    def step(self, side: str, changes: int) -> None:
        """Insert, update and delete some rows of a side."""
        values = self.draw(side, changes)
        rows = [(json.loads(key), value if value is None else json.loads(value)) for key, value in values.items()]
        self.app.table(TABLES[side]).put(rows)

    def draw(self, side: str, changes: int) -> dict[str, str | None]:
        """Draw the rows of a step, and note them in ``sides``; None deletes."""
        values = {text(f"{side[0]}{self.dice.randrange(_KEYS)}"): self._value(side) for _ in range(changes)}
        for key, value in values.items():
            self.sides[side].pop(key, None)
            if value is not None:
                self.sides[side][key] = value
        return values

    def _value(self, side: str) -> str | None:
        if self.dice.random() < 0.2:
            return None
        n = self.dice.randrange(3)
        return text({"fk": f"r{self.dice.randrange(_KEYS)}", "n": n} if side == "left" else {"n": n})

    @contextmanager
    def following(self) -> Iterator[None]:
        """Run both joins until the block ends."""
        with running(self.app) as failures:
            yield
        assert not failures, failures

    def wait(self) -> None:
        """Wait until the channels add up to the joins of the current rows."""
        deadline = time.monotonic() + _PATIENCE
        for join in JOINS:
            expected = self.sides.joined(join)
            while (found := JoinReader(self.app, join).folded_channel()) != expected:
                assert time.monotonic() < deadline, f"{join}: {found} is not {expected}"
                time.sleep(0.2)  # leaves the cores to the run

    def assert_folded(self) -> None:
        """Assert that results, channels and subscriptions match the tables."""
        for join in JOINS:
            JoinReader(self.app, join).assert_joins(self.sides)


STEPS = ("left", "right", "left", "right")


def seeded_history(seed: int, app: Application) -> History:
    """A history whose steps depend only on the seed."""
    return History(app, random.Random(seed))  # noqa: S311  no secret


def main(manifests: str, warehouse: str, seed: str, moment: str) -> None:
    """Write the steps, each a batch of its own, and kill this process at a moment of a fold.

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
        monkeypatch.setattr(ForeignKeyJoin, "fold_subscriptions", die)

        def record(delta: Tables, spark: SparkSession, resource: str, batch: BatchId, report: BatchReport) -> None:
            if not resource.endswith(state_ref("")):
                die()
            record_progress(delta, spark, resource, batch, report)

        monkeypatch.setattr(folding, "record_progress", record)


def sizes(few: int, small: int, changes: int) -> dict[str, Any]:
    """Limits in rows, far lower than the default ones: a handful of rows makes a large batch."""
    return {
        "few": Size(few, 1 << 20),
        "small_batch": Size(small, 1 << 20),
        "looked_up": Size(small, 1 << 20),
        "changes": Size(changes, 1 << 20),
    }


LIMITS = sizes(few=3, small=9, changes=30)
ALL_IN_SPARK = sizes(few=0, small=0, changes=0)


@pytest.mark.parametrize(
    ("seed", "limits"),
    [
        (1, LIMITS),
        *(pytest.param(seed, LIMITS, marks=pytest.mark.slow) for seed in range(2, 6)),
        pytest.param(6, ALL_IN_SPARK, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("folds", [pytest.param("at the end", marks=pytest.mark.slow), "but for states"])
def test_channels_add_up_to_the_join_while_batches_are_pending(  # noqa: PLR0917  fixtures, and what varies
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    limits: dict[str, Any],
    folds: str,
) -> None:
    at_the_end = folds == "at the end"
    if at_the_end:
        postpone_folds(monkeypatch)
    fold_sizes: list[int] = []
    fold = ForeignKeyJoin.fold

    def counted_fold(
        self: ForeignKeyJoin, batches: Sequence[LoggedBatch], *, with_state: bool = True
    ) -> Sequence[Folded]:
        if len(batches) > 1 or not with_state:  # otherwise it is the first batch of the checkpoint
            fold_sizes.append(len(batches))
            assert not with_state  # states are folded alone, when the run ends
        return fold(self, batches, with_state=with_state)

    monkeypatch.setattr(ForeignKeyJoin, "fold", counted_fold)
    app = Application.open(
        MANIFESTS, warehouse=tmp_path, spark=spark, limits=replace(Limits() if at_the_end else FOLD_AT_ONCE, **limits)
    )
    history = History(app, random.Random(seed))  # noqa: S311
    history.step("left", 12)
    history.step("right", 12)
    with history.following():
        history.wait()
        for side, changes in (("left", 2), ("right", 6), ("left", 12), ("right", 1), ("left", 30)):
            history.step(side, changes)
            history.wait()
        assert bool(fold_sizes) != at_the_end
    if at_the_end:
        assert len(fold_sizes) == len(JOINS)
        assert min(fold_sizes) > 3, fold_sizes
    else:
        assert sum(fold_sizes) > 3 * len(JOINS)
    history.assert_folded()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("moment", ["before", "after", "states behind"])
def test_the_next_run_folds_pending_batches_that_a_kill_left(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.properties.test_pending_batches",
        str(MANIFESTS),
        str(tmp_path),
        "7",
        moment,
    ]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=500, check=False)  # noqa: S603
    assert done.returncode == -9, done.stdout + done.stderr
    history = seeded_history(7, Application.open(MANIFESTS, warehouse=tmp_path, spark=spark))
    for side in STEPS:
        history.draw(side, 8)
    shown = [JoinReader(history.app, name) for name in JOINS]
    folded = [one.result() == history.sides.joined(one.join) for one in shown]
    assert any(folded) == (moment != "before")
    changes = [len(one.feed()) for one in shown]
    if moment == "states behind":
        assert any(one.subscribed_foreign_keys() != history.sides.foreign_keys() for one in shown)
    history.app.run()
    history.assert_folded()
    unchanged = [len(one.feed()) == before for one, before in zip(shown, changes, strict=True)]
    assert unchanged == folded  # a folded result gets no change, not even older rows for a moment


if __name__ == "__main__":
    main(*sys.argv[1:])
