"""Folding: bringing the tables of a resource up to its log, batch by batch or several batches at once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.counters import BatchTiming, counter, failed_natively
from kaspr_delta.engine.batch.decision import Folded
from kaspr_delta.engine.batch.log import BatchMetadata, Log
from kaspr_delta.engine.batch.progress import BatchReport, Reported, record_progress
from kaspr_delta.engine.batch.resource import Resource, cost_of
from kaspr_delta.engine.batch.topic_commit import announced_records
from kaspr_delta.engine.rows.local_rows import LocalRows, last_of_each_key, set_adaptive
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.storage.layout import state_ref
from kaspr_delta.storage.tables import Tables

_NOTHING = BatchReport(0, 0, 0, 0, 0, 0.0)


def newest_states(states: Sequence[pa.Table]) -> pa.Table:
    """The last row of each key, in states of successive batches, the oldest first."""
    return last_of_each_key(pa.concat_tables(states), ["key"]).combine_chunks()


def _newest(folded: Mapping[str, int]) -> BatchId | None:
    """The last folded batch of the newest checkpoint; ``folded`` has one batch per checkpoint."""
    return max((BatchId(checkpoint, number) for checkpoint, number in folded.items()), default=None)


@dataclass(frozen=True, slots=True)
class Committed:
    """A batch in the log. ``state``: the state that it changed, kept until it is folded; None if it cannot wait."""

    id: BatchId
    rows: Rows
    metadata: BatchMetadata
    timing: BatchTiming = field(default_factory=BatchTiming)
    state: pa.Table | None = None

    @property
    def nbytes(self) -> int:
        kept = [self.rows.table if isinstance(self.rows, LocalRows) else None, self.state]
        return sum(int(table.nbytes) for table in kept if table is not None)


@dataclass
class Folding:
    """The folds of one resource, and the batches of its log that wait for the next fold.

    Waiting batches are in the log. After a crash, the next process folds them.

    With ``defers_state`` (a run without end) a fold leaves out the states of batches, because only the resource reads
    them: they are ``deferred``, and folded when they are too large or the run ends. Before a state has lagged for the
    first time, progress has no row for it: it is folded as far as the rest.
    """

    delta: Tables
    resource: Resource[Any]
    pending_batches: list[Committed] = field(default_factory=list, init=False)
    defers_state: bool = field(default=False, init=False)
    # The states of batches that are folded except for their states, the oldest first.
    deferred: list[pa.Table] = field(default_factory=list, init=False)
    # The last folded batch, and the last one whose state is folded, if progress has a row for the state.
    _folded: BatchId | None = field(default=None, init=False)
    _state_folded: BatchId | None = field(default=None, init=False)
    _last_fold_took: float = field(default=0.0, init=False)
    _last_fold_ended: float = field(default=0.0, init=False)
    _last_batch_came: float = field(default=0.0, init=False)

    @property
    def unmerged(self) -> list[pa.Table]:
        """The states of batches that are in no table yet, the oldest first."""
        return [*self.deferred, *(one.state for one in self.pending_batches if one.state is not None)]

    @property
    def has_pending(self) -> bool:
        return bool(self.pending_batches or self.deferred)

    @property
    def due(self) -> bool:
        """Whether batches wait, and the rest after the last fold is over, or no batch came lately, or they are big."""
        if not self.pending_batches:
            return False
        now, limits = time.monotonic(), self.delta.limits
        rested = now - self._last_fold_ended >= min(self._last_fold_took * limits.fold_rest, limits.longest_rest)
        quiet = now - self._last_batch_came >= max(self._last_fold_took * limits.fold_quiet, limits.least_quiet)
        return rested or quiet or sum(one.nbytes for one in self.pending_batches) > limits.pending_bytes

    def resume(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Forget waiting batches, which the log has, and fold the state up to ``folded`` (see ``folded_batches``)."""
        self.pending_batches.clear()
        self.deferred.clear()
        self._note(folded)
        self._fold_state(spark)

    def state_lags(self, folded: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether the state is folded less far than the batches, by progress alone."""
        self._note(folded)
        return self._state_upto is not None

    def fold_or_wait(self, spark: SparkSession, committed: Committed, *, may_wait: bool) -> list[Reported]:
        """Fold a batch, or let it wait for others."""
        if not may_wait or not self.resource.folds_together:
            return self.fold(spark, [committed])
        committed.timing.begin()
        state = self.resource.changed_state(committed.rows)
        committed.timing.done("fold")
        self.pending_batches.append(replace(committed, state=state))
        self._last_batch_came = time.monotonic()
        return self.fold_all(spark) if state is None else self.fold_due()

    def fold_due(self) -> list[Reported]:
        """Fold the waiting batches, if they are due. Their states may be deferred."""
        return self._fold_pending() if self.due else []

    def fold_all(self, spark: SparkSession) -> list[Reported]:
        reports = self._fold_pending() if self.pending_batches else []
        self._fold_state(spark)
        return reports

    def _fold_pending(self) -> list[Reported]:
        batches = list(self.pending_batches)
        state = self._deferrable()
        # The rows belong to their stream's session, which has its own settings.
        session = batches[-1].rows.spark
        set_adaptive(session, self.delta.limits, *(one.rows for one in batches))
        began = time.monotonic()
        reports = self.fold(session, batches, with_state=state is None)
        self._last_fold_ended = time.monotonic()
        self._last_fold_took = self._last_fold_ended - began
        self.pending_batches.clear()
        if state is not None:
            self.deferred = [state]
        return reports

    def _deferrable(self) -> pa.Table | None:
        """The states that are in no table yet, the last of each key; None if they must be folded now."""
        if not self.defers_state or any(one.state is None for one in self.pending_batches):
            return None
        state = newest_states(self.unmerged)
        return state if state.nbytes <= self.delta.limits.deferred_bytes else None

    def fold(self, spark: SparkSession, batches: Sequence[Committed], *, with_state: bool = True) -> list[Reported]:
        """Fold batches, given in the order of the log, together, and record that in progress. May be repeated.

        Unless ``with_state``, their states are deferred.
        """
        first, last = batches[0].id, batches[-1]
        replaces = any(one.metadata.replaces for one in batches)
        if replaces:
            self.resource.replace_result(spark)
        if with_state:
            self._fold_state(spark)
        elif self._state_folded is None or self._state_folded.checkpoint != first.checkpoint:
            self._record_state(spark, first.before)  # from now on the state lags
        last.timing.begin()
        folded = self._fold_rows(spark, batches, with_state=with_state)
        last.timing.done("fold")
        statistics = self.delta.statistics.drain()
        failures = failed_natively(statistics.native_failures)
        reports: list[Reported] = []
        for one, done in zip(batches, folded, strict=True):
            report = BatchReport(
                rows_in=one.metadata.rows_in,
                rows_out=done.rows_out,
                dead_letters=done.dead_letters,
                stale=done.stale,
                conflicts=statistics.conflicts if one is last else 0,
                seconds=one.timing.seconds,
                counts=json.dumps(
                    {
                        **one.metadata.counts,
                        **done.counts,
                        **one.timing.milliseconds,
                        **(failures if one is last else {}),
                    }
                ),
            )
            record_progress(self.delta, spark, str(self.resource.ref), one.id, report)
            reports.append((one.id, report))
        self._folded = last.id
        if replaces:
            self.resource.end_replacement()
        if with_state and self._state_folded is not None:
            self._record_state(spark, last.id)
        return reports

    def _fold_state(self, spark: SparkSession) -> None:
        """Fold the state up to the last folded batch, if it lags. May be repeated.

        If states are ``deferred``, they are all that is missing. After a start there are none, and the log is read.
        """
        upto, recorded = self._state_upto, self._state_folded
        if upto is None or recorded is None:
            return
        began = time.monotonic()
        after = recorded if recorded.checkpoint == upto.checkpoint else BatchId(upto.checkpoint).before
        if self.deferred:
            rows: Rows = LocalRows(spark, newest_states(self.deferred))
        else:
            rows = Log(self.delta, self.resource.log_table).unfolded(spark, after, upto)
        counts = json.dumps(cost_of(self.resource.state_folds(rows, several=not self.deferred)))
        self.deferred.clear()
        self._record_state(spark, upto, replace(_NOTHING, seconds=time.monotonic() - began, counts=counts))

    @property
    def _state_upto(self) -> BatchId | None:
        """The batch up to which the state has to be folded; None if it does not lag."""
        lags = self._folded is not None and self._state_folded is not None and self._state_folded < self._folded
        return self._folded if lags else None

    def _note(self, folded: Mapping[str, Mapping[str, int]]) -> None:
        ref = str(self.resource.ref)
        self._folded, self._state_folded = (_newest(folded.get(name, {})) for name in (ref, state_ref(ref)))

    def _record_state(self, spark: SparkSession, upto: BatchId, report: BatchReport = _NOTHING) -> None:
        record_progress(self.delta, spark, state_ref(str(self.resource.ref)), upto, report)
        self._state_folded = upto

    def _fold_rows(self, spark: SparkSession, batches: Sequence[Committed], *, with_state: bool) -> Sequence[Folded]:
        if self.resource.folds_together:
            return self.resource.fold([(one.id, one.rows) for one in batches], with_state=with_state)
        return [self._fold_alone(spark, one) for one in batches]

    def _fold_alone(self, spark: SparkSession, one: Committed) -> Folded:
        announced = one.metadata.direct
        if announced is None:
            (folded,) = self.resource.fold([(one.id, one.rows)])
            return folded
        records = announced_records(self.delta, spark, announced, one.id) or 0
        return Folded(records, 0, counts={counter("topic_messages_sent", announced.topic): records})
