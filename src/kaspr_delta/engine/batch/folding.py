"""Folding: bringing what a resource keeps up to its log, batch by batch or several batches at once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.engine.batch.batch_timing import BatchTiming
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.counters import counter, failed_natively
from kaspr_delta.engine.batch.deferred_state import DeferredState, last_of_each_key
from kaspr_delta.engine.batch.log import Memo
from kaspr_delta.engine.batch.progress import BatchReport, Progress
from kaspr_delta.engine.batch.resource import Folded, FoldsTogether, Resource
from kaspr_delta.engine.batch.topic_commit import appended
from kaspr_delta.engine.rows.planning import plan_for
from kaspr_delta.engine.rows.rows import FEW_ROWS, Rows
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A fold waits until so many times as long as the last one took has passed since, but never longer than some seconds:
# folds of large tables, in which every changed row has a file written anew, take a thirtieth of the time, but for those
# of very large ones, and small tables are up to date at once.
_REST = 29
_LONGEST_REST = 120.0
# Where no batch comes for so many times as long as the last fold took, and for so many seconds, nothing is to wait for.
_QUIET = 3
_LEAST_QUIET = 1.0
# What is held of batches that wait, and of states that stay behind, in which every batch looks for keys.
_MOST_BYTES = 64 << 20
_MOST_BEHIND = 32 << 20


@dataclass(frozen=True, slots=True)
class Committed:
    """A batch that is in the log; ``state`` is what of it has to be known until it is folded, where it may wait."""

    batch: BatchId
    rows: Rows
    memo: Memo
    steps: BatchTiming = field(default_factory=BatchTiming)
    state: pa.Table | None = None

    @property
    def held(self) -> int:
        """The bytes of it on the driver."""
        return sum(table.nbytes for table in (self.rows.table, self.state) if table is not None)


@dataclass
class Folding:
    """The folds of one resource, and the tail of its log: batches that wait for the next.

    What waits is in the log. Whoever dies leaves it to be folded by the next who starts.

    In a run without end (``lasting``) the state that batches leave stays behind when they are folded, for nobody but
    the resource reads it: what is ``behind`` is held, and folded when it is too much for that, or the run ends.
    """

    delta: Tables
    resource: Resource
    tail: list[Committed] = field(default_factory=list, init=False)
    lasting: bool = field(default=False, init=False)
    behind: DeferredState = field(init=False)
    _took: float = field(default=0.0, init=False)
    _ended: float = field(default=0.0, init=False)
    _came: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.behind = DeferredState(self.delta, self.resource)

    @property
    def states(self) -> list[pa.Table]:
        """What has to be known of the batches whose states are in no table yet, the oldest first."""
        return [*self.behind.held, *(one.state for one in self.tail if one.state is not None)]

    @property
    def waits(self) -> bool:
        """Whether something is not folded yet."""
        return bool(self.tail or self.behind.held)

    @property
    def due(self) -> bool:
        """Whether a batch waits that has waited long enough, for no other that comes, or is too much to be held."""
        if not self.tail:
            return False
        now = time.monotonic()
        rested = now - self._ended >= min(self._took * _REST, _LONGEST_REST)
        quiet = now - self._came >= max(self._took * _QUIET, _LEAST_QUIET)
        return rested or quiet or sum(one.held for one in self.tail) > _MOST_BYTES

    def resume(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Forget what waits, for the log has it, and bring the state up to what is folded (see ``folded_batches``)."""
        self.tail.clear()
        self.behind.resume(spark, folded)

    def take(self, spark: SparkSession, committed: Committed, *, may_wait: bool) -> list[BatchReport]:
        """Fold a batch, or let it wait for others."""
        if not may_wait or not isinstance(self.resource, FoldsTogether):
            return self.fold(spark, [committed])
        committed.steps.begin()
        state = self.resource.state_of(committed.rows)
        committed.steps.done("fold")
        self.tail.append(replace(committed, state=state))
        self._came = time.monotonic()
        return self.settle(spark) if state is None else self.fold_due(spark)

    def fold_due(self, spark: SparkSession) -> list[BatchReport]:
        """Fold what waits, if it is due; states may stay behind."""
        return self._fold_tail() if self.due else []

    def settle(self, spark: SparkSession) -> list[BatchReport]:
        """Fold all that waits."""
        reports = self._fold_tail() if self.tail else []
        self.behind.fold(spark)
        return reports

    def _fold_tail(self) -> list[BatchReport]:
        batches = list(self.tail)
        state = self._may_stay_behind()
        # The rows belong to the session of their stream, which has settings of its own.
        session = batches[-1].rows.spark
        here = all(one.rows.here for one in batches)
        plan_for(session, few=here and sum(one.rows.count() for one in batches) <= FEW_ROWS)
        began = time.monotonic()
        reports = self.fold(session, batches, states=state is None)
        self._ended = time.monotonic()
        self._took = self._ended - began
        self.tail.clear()
        if state is not None:
            self.behind.held = [state]
        return reports

    def _may_stay_behind(self) -> pa.Table | None:
        """The states that are in no table yet, of each key the last; None if they are not to stay so."""
        if not self.lasting or any(one.state is None for one in self.tail):
            return None
        state = last_of_each_key(self.states)
        return state if state.nbytes <= _MOST_BEHIND else None

    def fold(self, spark: SparkSession, batches: Sequence[Committed], *, states: bool = True) -> list[BatchReport]:
        """Fold batches in the order of the log, at once, and write down that they are folded. May be repeated.

        Without their ``states`` these stay behind.
        """
        if states:
            self.behind.fold(spark)
        else:
            self.behind.stays(spark, batches[0].batch)
        last = batches[-1]
        last.steps.begin()
        folded = self._folded(spark, batches, states=states)
        last.steps.done("fold")
        conflicts = self.delta.statistics.conflicts.take()
        failures = failed_natively(self.delta.statistics.take_native_failures())
        reports = []
        for one, done in zip(batches, folded, strict=True):
            report = BatchReport(
                rows_in=one.memo.rows_in,
                rows_out=done.rows_out,
                dead_letters=done.dead_letters,
                stale=done.stale,
                conflicts=conflicts if one is last else 0,
                seconds=one.steps.seconds,
                counts=json.dumps(
                    {**one.memo.counts, **done.counts, **one.steps.milliseconds, **(failures if one is last else {})}
                ),
            )
            Progress(self.delta, str(self.resource.ref)).record(spark, one.batch, report)
            reports.append(report)
        self.behind.followed(spark, last.batch, states=states)
        return reports

    def _folded(self, spark: SparkSession, batches: Sequence[Committed], *, states: bool) -> Sequence[Folded]:
        if isinstance(self.resource, FoldsTogether) and (len(batches) > 1 or not states):
            return self.resource.fold_together([(one.batch, one.rows) for one in batches], states=states)
        return [self._folded_alone(spark, one) for one in batches]

    def _folded_alone(self, spark: SparkSession, one: Committed) -> Folded:
        announced = one.memo.direct
        if announced is None:
            return self.resource.fold(spark, one.batch, one.rows)
        records = appended(self.delta, spark, announced, one.batch) or 0
        return Folded(records, 0, counts={counter("topic_messages_sent", announced.topic): records})
