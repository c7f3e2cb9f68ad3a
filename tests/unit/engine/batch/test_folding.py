from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.batch import folding
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.decision import Folded, LoggedBatch
from kaspr_delta.engine.batch.folding import Committed, Folding
from kaspr_delta.engine.batch.log import BatchMetadata, Log
from kaspr_delta.engine.batch.progress import Progress
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.namespace import LocalNamespace
from kaspr_delta.storage.opening import open_tables

NO_SPARK: Any = SimpleNamespace()


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


def unused(*_: object) -> Any:
    raise AssertionError


class FoldsOneByOne:
    """A resource whose batches are folded one by one. A fold takes ``seconds``."""

    ref = ResourceRef("join", "j")
    decide = source = reached = begin = due = sources = unused
    fills_gaps = catch_up = unused
    log_table = table_group = timed = definition = ""
    folds_together = False

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds
        self.held = True
        self.folds: list[list[int]] = []
        self.deferred: list[int] = []
        self.states: list[tuple[int, int]] = []

    def fold(self, batches: Sequence[LoggedBatch], *, with_state: bool = True) -> Sequence[Folded]:
        if not with_state:
            self.deferred += [batch.number for batch, _ in batches]
        self.folds.append([batch.number for batch, _ in batches])
        self.clock.now += self.seconds
        return [Folded(rows.count(), 0) for _, rows in batches]


class Join(FoldsOneByOne):
    """A resource whose batches may wait and be folded together, unless their state is too large to be ``held``."""

    folds_together = True

    def changed_state(self, rows: Rows) -> pa.Table | None:
        return rows.table if self.held and isinstance(rows, LocalRows) else None

    def fold_states(self, rows: Any, *, several: bool) -> Mapping[str, int]:
        batches = [rows.first, rows.last] if several else [int(key.split()[0]) for key in rows.distinct("key")]
        self.states.append((min(batches), max(batches)))
        return {}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(folding, "time", found)
    monkeypatch.setattr(folding, "plan_for", lambda *_, **__: None)
    return found


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    numbers: list[int] = []

    def record(progress: Progress, _: object, batch: BatchId, __: object) -> None:
        if progress.resource == "join/j":
            numbers.append(batch.number)

    monkeypatch.setattr(Progress, "record", record)
    return numbers


def folding_of(join: Any, tmp_path: Path, limits: Limits | None = None) -> Folding:
    return Folding(open_tables(LocalNamespace(tmp_path, "shop", "shop"), limits), join)


def keys(batch: int, rows: int) -> pa.Table:
    return pa.table({"key": [f"{batch} {row}" for row in range(rows)]})


def batch(number: int, rows: int = 1) -> Committed:
    return Committed(BatchId("c", number), LocalRows(NO_SPARK, keys(number, rows)), BatchMetadata(rows_in=rows))


def commit_batch(join_folding: Folding, number: int, rows: int = 1, *, may_wait: bool = True) -> list[int]:
    return [report.rows_in for report in join_folding.fold_or_wait(NO_SPARK, batch(number, rows), may_wait=may_wait)]


def test_the_first_batch_is_folded_at_once(clock: Clock, reported: list[int], tmp_path: Path) -> None:
    join = Join(clock, 10)
    assert commit_batch(folding_of(join, tmp_path), 0) == [1]
    assert join.folds == [[0]]
    assert reported == [0]


def test_folds_take_at_most_a_thirtieth_of_the_time(clock: Clock, reported: list[int], tmp_path: Path) -> None:
    join = Join(clock, 2)
    join_folding = folding_of(join, tmp_path)
    begun = clock.now
    for number in range(200):
        clock.now += 1
        commit_batch(join_folding, number)
    elapsed = clock.now - begun
    assert len(join.folds) * 2 <= elapsed / 30 + 2
    assert max(map(len, join.folds)) <= 61  # so a batch waits at most a minute
    assert reported == sorted(reported)
    assert len(reported) + len(join_folding.pending_batches) == 200


def test_pending_batches_are_folded_when_due_without_another_batch(
    clock: Clock, reported: list[int], tmp_path: Path
) -> None:
    join = Join(clock, 4)
    join_folding = folding_of(join, tmp_path)
    for number in range(4):
        clock.now += 11.9
        commit_batch(join_folding, number)
    assert reported == [0]
    folded = list[int]()
    for seconds in (11.9, 0.2, 100):
        clock.now += seconds
        join_folding.fold_due()
        folded.append(len(join.folds))
    assert folded == [1, 2, 2]
    assert join.folds == [[0], [1, 2, 3]]


def test_batches_are_folded_at_once_if_folds_are_short(clock: Clock, reported: list[int], tmp_path: Path) -> None:
    join = Join(clock, 0.02)
    join_folding = folding_of(join, tmp_path)
    for number in range(5):
        clock.now += 0.7
        commit_batch(join_folding, number)
    assert join.folds == [[number] for number in range(5)]
    assert reported == list(range(5))


def test_a_batch_waits_at_most_two_minutes_however_long_folds_take(
    clock: Clock, reported: list[int], tmp_path: Path
) -> None:
    join_folding = folding_of(Join(clock, 1_000), tmp_path)
    commit_batch(join_folding, 0)
    clock.now += 119
    commit_batch(join_folding, 1)
    assert (join_folding.due, reported) == (False, [0])
    clock.now += 1
    assert join_folding.due


def test_without_pending_batches_no_fold_is_due(clock: Clock, tmp_path: Path) -> None:
    assert not folding_of(Join(clock, 1), tmp_path).due


def test_batches_above_the_limit_of_waiting_bytes_are_folded(clock: Clock, reported: list[int], tmp_path: Path) -> None:
    join = Join(clock, 10)
    join_folding = folding_of(join, tmp_path, Limits(waiting_bytes=2 * keys(0, 10).nbytes))
    commit_batch(join_folding, 0)
    assert commit_batch(join_folding, 1, rows=6) == []
    assert commit_batch(join_folding, 2, rows=6) == [6, 6]
    assert join.folds == [[0], [1, 2]]
    assert reported == [0, 1, 2]


def test_a_batch_whose_state_is_too_large_is_folded_with_all_pending_ones(
    clock: Clock, reported: list[int], tmp_path: Path
) -> None:
    join = Join(clock, 10)
    join_folding = folding_of(join, tmp_path)
    commit_batch(join_folding, 0)
    commit_batch(join_folding, 1)
    join.held = False
    assert commit_batch(join_folding, 2) == [1, 1]
    assert join.folds == [[0], [1, 2]]
    assert join_folding.unmerged == []
    assert reported == [0, 1, 2]


def test_unmerged_states_are_known_in_order_until_they_are_folded(
    clock: Clock, reported: list[int], tmp_path: Path
) -> None:
    join_folding = folding_of(Join(clock, 10), tmp_path)
    commit_batch(join_folding, 0)
    commit_batch(join_folding, 1, rows=1)
    commit_batch(join_folding, 2, rows=2)
    assert [table.num_rows for table in join_folding.unmerged] == [1, 2]
    join_folding.fold_all(NO_SPARK)
    assert join_folding.unmerged == []
    assert join_folding.fold_all(NO_SPARK) == []
    assert reported == [0, 1, 2]


@pytest.mark.parametrize(("kind", "may_wait"), [(FoldsOneByOne, True), (Join, False)])
def test_batches_that_may_not_wait_are_folded_one_by_one(
    clock: Clock, reported: list[int], tmp_path: Path, kind: type[Join], may_wait: bool
) -> None:
    join = kind(clock, 10)
    join_folding = folding_of(join, tmp_path)
    for number in range(3):
        commit_batch(join_folding, number, may_wait=may_wait)
    assert join.folds == [[0], [1], [2]]
    assert reported == [0, 1, 2]


def test_batches_of_a_failed_fold_stay_pending(
    clock: Clock, reported: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(clock, 10)
    join_folding = folding_of(join, tmp_path)
    commit_batch(join_folding, 0)
    commit_batch(join_folding, 1)
    monkeypatch.setattr(join, "fold", _fails)
    with pytest.raises(OSError, match="disk is full"):
        join_folding.fold_all(NO_SPARK)
    monkeypatch.delattr(join, "fold")
    assert [report.rows_in for report in join_folding.fold_all(NO_SPARK)] == [1]
    assert reported == [0, 1]


def _fails(*_: object, **__: object) -> Sequence[Folded]:
    msg = "disk is full"
    raise OSError(msg)


@dataclass
class Progressed:
    """The last batch of checkpoint ``c`` recorded in progress, for the resource and for its state."""

    done: dict[str, dict[str, int]]

    @property
    def resource(self) -> int | None:
        return self.done.get("join/j", {}).get("c")

    @property
    def states(self) -> int | None:
        return self.done.get("join/j state", {}).get("c")


@pytest.fixture
def progressed(monkeypatch: pytest.MonkeyPatch) -> Progressed:
    found = Progressed({})

    def record(progress: Progress, _: object, batch: BatchId, __: object) -> None:
        found.done.setdefault(progress.resource, {})[batch.checkpoint] = batch.number

    def between(_: Log, __: object, after: BatchId, upto: BatchId) -> Any:
        return SimpleNamespace(first=after.number + 1, last=upto.number)

    monkeypatch.setattr(Progress, "record", record)
    monkeypatch.setattr(Log, "between", between)
    return found


def continuous_join(clock: Clock, tmp_path: Path, *rows: int, limits: Limits | None = None) -> tuple[Join, Folding]:
    """A join in a continuous run, and its folding after batches with these numbers of rows."""
    join = Join(clock, 0)
    join_folding = folding_of(join, tmp_path, limits)
    join_folding.endless = True
    for number, many in enumerate(rows):
        commit_batch(join_folding, number, many)
    return join, join_folding


def test_in_a_continuous_run_states_are_deferred_but_known(
    clock: Clock, progressed: Progressed, tmp_path: Path
) -> None:
    join, join_folding = continuous_join(clock, tmp_path, 1, 2, 3)
    assert join.deferred == [0, 1, 2]
    assert [table.num_rows for table in join_folding.unmerged] == [6]
    assert (progressed.resource, progressed.states) == (2, -1)
    assert join_folding.waits
    assert not join_folding.due
    join_folding.fold_all(NO_SPARK)
    assert join.states == [(0, 2)]
    assert (progressed.resource, progressed.states) == (2, 2)
    assert not join_folding.waits


def test_deferred_states_are_folded_before_a_batch_that_cannot_wait(
    clock: Clock, progressed: Progressed, tmp_path: Path
) -> None:
    join, join_folding = continuous_join(clock, tmp_path, 1, 1)
    join.held = False
    commit_batch(join_folding, 2)
    assert (join.folds, join.deferred, join.states) == ([[0], [1], [2]], [0, 1], [(0, 1)])
    assert (progressed.resource, progressed.states) == (2, 2)
    assert join_folding.unmerged == []


def test_states_above_the_limit_of_deferred_bytes_are_not_deferred(
    clock: Clock, progressed: Progressed, tmp_path: Path
) -> None:
    join, _ = continuous_join(clock, tmp_path, 8, 8, 8, limits=Limits(deferred_bytes=2 * keys(0, 10).nbytes))
    assert (join.deferred, join.states) == ([0, 1], [(0, 1)])
    assert (progressed.resource, progressed.states) == (2, 2)


@pytest.mark.usefixtures("progressed")
def test_only_the_last_deferred_state_of_a_key_is_held(clock: Clock, tmp_path: Path) -> None:
    join = Join(clock, 0)
    join_folding = folding_of(join, tmp_path, Limits(deferred_bytes=2 * keys(0, 10).nbytes))
    join_folding.endless = True
    for number in range(9):
        again = replace(batch(number), rows=LocalRows(NO_SPARK, keys(0, 8)))
        join_folding.fold_or_wait(NO_SPARK, again, may_wait=True)
    assert (join.deferred, join.states) == (list(range(9)), [])
    assert [table.num_rows for table in join_folding.unmerged] == [8]


def test_resume_folds_deferred_states(clock: Clock, progressed: Progressed, tmp_path: Path) -> None:
    join, _ = continuous_join(clock, tmp_path, 1, 1, 1)
    again = folding_of(join, tmp_path)
    again.resume(NO_SPARK, progressed.done)
    assert join.states == [(0, 2)]
    assert (progressed.resource, progressed.states) == (2, 2)
    commit_batch(again, 3)  # not in a continuous run
    assert join.deferred == [0, 1, 2]
    assert (progressed.resource, progressed.states) == (3, 3)
    folding_of(join, tmp_path).resume(NO_SPARK, progressed.done)
    assert join.states == [(0, 2)]


def test_a_new_checkpoint_begins_a_new_progress_of_the_state(
    clock: Clock, progressed: Progressed, tmp_path: Path
) -> None:
    progressed.done = {"join/j": {"b": 7}, "join/j state": {"b": 7}}
    join, join_folding = continuous_join(clock, tmp_path)
    join_folding.resume(NO_SPARK, progressed.done)
    commit_batch(join_folding, 0)
    assert progressed.done["join/j state"] == {"b": 7, "c": -1}
    join_folding.fold_all(NO_SPARK)
    assert join.states == [(0, 0)]
    join.states.clear()
    progressed.done = {"join/j": {"b": 7, "c": 0}, "join/j state": {"b": 7}}  # killed before the state was recorded
    folding_of(join, tmp_path).resume(NO_SPARK, progressed.done)
    assert join.states == [(-1, 0)]
