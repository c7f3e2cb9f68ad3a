from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.batch import folding
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.decision import Folded, LoggedBatch
from kaspr_delta.engine.batch.folding import Committed, Folding, newest_states
from kaspr_delta.engine.batch.log import BatchMetadata, Log
from kaspr_delta.engine.batch.resource import Fold
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.namespace import LocalNamespace
from kaspr_delta.storage.opening import open_tables

NO_SPARK: Any = SimpleNamespace()


@dataclass
class Clock:
    """A clock that the test sets."""

    now: float = 1_000.0

    def monotonic(self) -> float:
        return self.now


def unused(*_: object, **__: object) -> Any:
    raise AssertionError


class FoldsOneByOne:
    """A resource whose batches are folded one by one. A fold takes ``seconds``."""

    ref = ResourceRef("join", "j")
    decide = source = reached = begin = due = sources = unused
    fills_gaps = catch_up = unused
    log_table = table_group = timed = definition = ""
    folds_together = False

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds, self.held = clock, seconds, True
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

    def state_folds(self, rows: Any, *, several: bool) -> Sequence[Fold]:
        batches = [rows.first, rows.last] if several else [int(key.split()[0]) for key in rows.distinct("key")]
        self.states.append((min(batches), max(batches)))
        return []


@dataclass
class Runs:
    """Runs of one join in one warehouse. ``done``: the last batch in progress, by resource and checkpoint."""

    clock: Clock
    folder: Path
    reported: list[int] = field(default_factory=list)
    done: dict[str, dict[str, int]] = field(default_factory=dict)

    def of(
        self, seconds: float = 10, *, kind: type[Any] = Join, limits: Limits | None = None, defers_state: bool = False
    ) -> tuple[Join, Folding]:
        """A join whose folds take some seconds, and its folding in a new run."""
        join = kind(self.clock, seconds)
        return join, self.folding_of(join, limits=limits, defers_state=defers_state)

    def folding_of(self, join: Any, *, limits: Limits | None = None, defers_state: bool = False) -> Folding:
        found = Folding(open_tables(LocalNamespace(self.folder, "shop", "shop"), limits), join)
        found.defers_state = defers_state
        return found

    def continuous(self, *rows: int, limits: Limits | None = None) -> tuple[Join, Folding]:
        """A join in a continuous run, after batches with these numbers of rows."""
        join, join_folding = self.of(0, limits=limits, defers_state=True)
        commit_batches(join_folding, *rows)
        return join, join_folding

    @property
    def progress(self) -> tuple[int | None, int | None]:
        """The last batch of checkpoint ``c`` in progress, of the resource and of its state."""
        resource, states = (self.done.get(name, {}).get("c") for name in ("join/j", "join/j state"))
        return resource, states


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    found = Runs(Clock(), tmp_path)

    def record(_: object, __: object, resource: str, batch: BatchId, ___: object) -> None:
        found.done.setdefault(resource, {})[batch.checkpoint] = batch.number
        if resource == "join/j":
            found.reported.append(batch.number)

    def unfolded(_: Log, __: object, after: BatchId, upto: BatchId) -> Any:
        return SimpleNamespace(first=after.number + 1, last=upto.number)

    monkeypatch.setattr(folding, "time", found.clock)
    monkeypatch.setattr(folding, "set_adaptive", lambda *_, **__: None)
    monkeypatch.setattr(folding, "record_progress", record)
    monkeypatch.setattr(Log, "unfolded", unfolded)
    return found


def keys(batch: int, rows: int) -> pa.Table:
    return pa.table({"key": [f"{batch} {row}" for row in range(rows)]})


TWENTY_KEYS = 2 * keys(0, 10).nbytes


def batch(number: int, rows: int = 1) -> Committed:
    return Committed(BatchId("c", number), LocalRows(NO_SPARK, keys(number, rows)), BatchMetadata(rows_in=rows))


def commit_batch(join_folding: Folding, number: int, rows: int = 1, *, may_wait: bool = True) -> list[int]:
    return [report.rows_in for _, report in join_folding.fold_or_wait(NO_SPARK, batch(number, rows), may_wait=may_wait)]


def commit_batches(join_folding: Folding, *rows: int) -> list[int]:
    """Commit the batches 0, 1, … with these numbers of rows. The numbers of rows that the last one folded."""
    return [commit_batch(join_folding, number, many) for number, many in enumerate(rows)][-1] if rows else []


def test_the_first_batch_is_folded_at_once(runs: Runs) -> None:
    join, join_folding = runs.of()
    assert not join_folding.due
    assert commit_batch(join_folding, 0) == [1]
    assert join.folds == [runs.reported] == [[0]]


def test_folds_take_at_most_a_thirtieth_of_the_time(runs: Runs) -> None:
    join, join_folding = runs.of(2)
    begun = runs.clock.now
    for number in range(200):
        runs.clock.now += 1
        commit_batch(join_folding, number)
    assert len(join.folds) * 2 <= (runs.clock.now - begun) / 30 + 2
    assert max(map(len, join.folds)) <= 61  # so a batch waits at most a minute
    assert runs.reported == sorted(runs.reported)
    assert len(runs.reported) + len(join_folding.pending_batches) == 200


def test_pending_batches_are_folded_when_due_without_another_batch(runs: Runs) -> None:
    join, join_folding = runs.of(4)
    for number in range(4):
        runs.clock.now += 11.9
        commit_batch(join_folding, number)
    assert runs.reported == [0]
    folded = list[int]()
    for seconds in (11.9, 0.2, 100):
        runs.clock.now += seconds
        join_folding.fold_due()
        folded.append(len(join.folds))
    assert folded == [1, 2, 2]
    assert join.folds == [[0], [1, 2, 3]]


def test_batches_are_folded_at_once_if_folds_are_short(runs: Runs) -> None:
    join, join_folding = runs.of(0.02)
    for number in range(5):
        runs.clock.now += 0.7
        commit_batch(join_folding, number)
    assert join.folds == [[number] for number in range(5)]
    assert runs.reported == list(range(5))


def test_a_batch_waits_at_most_two_minutes_however_long_folds_take(runs: Runs) -> None:
    _, join_folding = runs.of(1_000)
    commit_batch(join_folding, 0)
    runs.clock.now += 119
    commit_batch(join_folding, 1)
    assert (join_folding.due, runs.reported) == (False, [0])
    runs.clock.now += 1
    assert join_folding.due


def test_batches_above_the_limit_of_pending_bytes_are_folded(runs: Runs) -> None:
    join, join_folding = runs.of(limits=Limits(pending_bytes=TWENTY_KEYS))
    assert commit_batches(join_folding, 1, 6) == []
    assert commit_batch(join_folding, 2, rows=6) == [6, 6]
    assert (join.folds, runs.reported) == ([[0], [1, 2]], [0, 1, 2])


def test_a_batch_whose_state_is_too_large_is_folded_with_all_pending_ones(runs: Runs) -> None:
    join, join_folding = runs.of()
    commit_batches(join_folding, 1, 1)
    join.held = False
    assert commit_batch(join_folding, 2) == [1, 1]
    assert (join.folds, runs.reported) == ([[0], [1, 2]], [0, 1, 2])
    assert join_folding.unmerged == []


def test_unmerged_states_are_known_in_order_until_they_are_folded(runs: Runs) -> None:
    _, join_folding = runs.of()
    commit_batches(join_folding, 1, 1, 2)
    assert [table.num_rows for table in join_folding.unmerged] == [1, 2]
    join_folding.fold_all(NO_SPARK)
    assert join_folding.unmerged == []
    assert join_folding.fold_all(NO_SPARK) == []
    assert runs.reported == [0, 1, 2]


@pytest.mark.parametrize(("kind", "may_wait"), [(FoldsOneByOne, True), (Join, False)])
def test_batches_that_may_not_wait_are_folded_one_by_one(runs: Runs, kind: type[Any], may_wait: bool) -> None:
    join, join_folding = runs.of(kind=kind)
    for number in range(3):
        commit_batch(join_folding, number, may_wait=may_wait)
    assert (join.folds, runs.reported) == ([[0], [1], [2]], [0, 1, 2])


def test_batches_of_a_failed_fold_stay_pending(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    join, join_folding = runs.of()
    commit_batches(join_folding, 1, 1)
    monkeypatch.setattr(join, "fold", unused)
    with pytest.raises(AssertionError):
        join_folding.fold_all(NO_SPARK)
    monkeypatch.delattr(join, "fold")
    assert [report.rows_in for _, report in join_folding.fold_all(NO_SPARK)] == [1]
    assert runs.reported == [0, 1]


def test_in_a_continuous_run_states_are_deferred_but_known(runs: Runs) -> None:
    join, join_folding = runs.continuous(1, 2, 3)
    assert join.deferred == [0, 1, 2]
    assert [table.num_rows for table in join_folding.unmerged] == [6]
    assert runs.progress == (2, -1)
    assert (join_folding.has_pending, join_folding.due) == (True, False)
    join_folding.fold_all(NO_SPARK)
    assert join.states == [(0, 2)]
    assert runs.progress == (2, 2)
    assert not join_folding.has_pending


def test_deferred_states_are_folded_before_a_batch_that_cannot_wait(runs: Runs) -> None:
    join, join_folding = runs.continuous(1, 1)
    join.held = False
    commit_batch(join_folding, 2)
    assert (join.folds, join.deferred, join.states) == ([[0], [1], [2]], [0, 1], [(0, 1)])
    assert runs.progress == (2, 2)
    assert join_folding.unmerged == []


def test_states_above_the_limit_of_deferred_bytes_are_not_deferred(runs: Runs) -> None:
    join, _ = runs.continuous(8, 8, 8, limits=Limits(deferred_bytes=TWENTY_KEYS))
    assert (join.deferred, join.states) == ([0, 1], [(0, 1)])
    assert runs.progress == (2, 2)


def test_only_the_last_deferred_state_of_a_key_is_held(runs: Runs) -> None:
    join, join_folding = runs.continuous(limits=Limits(deferred_bytes=TWENTY_KEYS))
    for number in range(9):
        again = replace(batch(number), rows=LocalRows(NO_SPARK, keys(0, 8)))
        join_folding.fold_or_wait(NO_SPARK, again, may_wait=True)
    assert (join.deferred, join.states) == (list(range(9)), [])
    assert [table.num_rows for table in join_folding.unmerged] == [8]


def test_of_several_deferred_states_of_a_key_the_newest_counts() -> None:
    older, newer = pa.table({"key": ["a", "b"], "fk": ["1", "1"]}), pa.table({"key": ["b", "c"], "fk": ["2", "2"]})
    found = newest_states([older, newer]).to_pydict()
    assert dict(zip(*found.values(), strict=True)) == {"a": "1", "b": "2", "c": "2"}


def test_resume_folds_deferred_states(runs: Runs) -> None:
    join, _ = runs.continuous(1, 1, 1)
    again = runs.folding_of(join)
    again.resume(NO_SPARK, runs.done)
    assert join.states == [(0, 2)]
    assert runs.progress == (2, 2)
    commit_batch(again, 3)  # not in a continuous run
    assert join.deferred == [0, 1, 2]
    assert runs.progress == (3, 3)
    runs.folding_of(join).resume(NO_SPARK, runs.done)
    assert join.states == [(0, 2)]


def test_a_new_checkpoint_begins_a_new_progress_of_the_state(runs: Runs) -> None:
    runs.done = {"join/j": {"b": 7}, "join/j state": {"b": 7}}
    join, join_folding = runs.continuous()
    join_folding.resume(NO_SPARK, runs.done)
    commit_batch(join_folding, 0)
    assert runs.done["join/j state"] == {"b": 7, "c": -1}
    join_folding.fold_all(NO_SPARK)
    assert join.states == [(0, 0)]
    join.states.clear()
    runs.done = {"join/j": {"b": 7, "c": 0}, "join/j state": {"b": 7}}  # killed before the state was recorded
    runs.folding_of(join).resume(NO_SPARK, runs.done)
    assert join.states == [(-1, 0)]
