"""The core of an aggregation: it folds the changes of each group into the row that the group had.

The counterpart of Kafka Streams' ``KStreamAggregate``, ``KStreamReduce`` and ``KTableAggregate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from kaspr_delta.engine.streams.selector import Problem, problem
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.call import call_with
from kaspr_delta.functions.failure import AUTHORS_CODE_FAILED, account_of_failure
from kaspr_delta.functions.snippet import in_empty_scope
from kaspr_delta.functions.time_limit import at_most
from kaspr_delta.plan.definition.joins import AggregationPlan
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.arrow_types import arrow_schema, batch_of
from kaspr_delta.storage.layout import AGGREGATED

_SCHEMA = arrow_schema(AGGREGATED)
_BATCH_ROWS = 10_000


class Change(NamedTuple):
    """A change of a group.

    The changes are in order: ``before`` is the group's row before the batch, followed by each ``add`` and ``subtract``.
    ``id`` is the key of the table row that a change comes from, ``last`` whether it is the last change of this row.
    """

    grp: str
    window_start: datetime | None
    op: str
    value: str | None
    timestamp: datetime | None
    stream: str | None
    source: str | None
    id: str | None
    last: bool | None


class AggregatedRow(NamedTuple):
    """A row of AGGREGATED."""

    kind: str
    key: str | None
    value: str | None = None
    timestamp: datetime | None = None
    window_start: datetime | None = None
    stream: str | None = None
    grp: str | None = None
    live: bool | None = None
    source: str | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class FoldGroups:
    """Turns changes, sorted by group, window and order, into rows of AGGREGATED.

    If a function fails, its group stays as it was and a ``failed`` row carries the problem. A table row that could not
    be added contributes nothing.
    """

    plan: AggregationPlan
    values: TableText
    table: TableText
    timeout: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = groupby(_rows(batches), attrgetter("grp", "window_start"))
        folded = (row for key, changes in groups for row in _Group(self, *key).folded(changes))
        while some := list(islice(folded, _BATCH_ROWS)):
            yield batch_of(some, _SCHEMA)

    def total_after(self, change: Change, total: str | None) -> str | None:
        """The total of a group after a change, as text.

        The total is decoded for every call, so that the result does not depend on where batches end. Raises
        SerializationError, and the errors of the author's functions.
        """
        decoded = None if total is None or self.plan.kind == "toTable" else self.table.value_object(total)
        with at_most(self.timeout):
            after = self._step(change, decoded)
        return self.table.value(after)

    def _step(self, change: Change, total: Any) -> Any:
        plan, adds = self.plan, change.op == "add"
        if plan.kind == "count":
            return (total or 0) + (1 if adds else -1)
        value = None if change.value is None else self.values.value_object(change.value)
        function = plan.adder if adds else plan.subtractor
        if plan.kind == "toTable" or function is None or (plan.kind == "reduce" and total is None):
            return value
        if total is None and plan.initializer is not None:
            total = call_with(in_empty_scope(plan.initializer))
        return call_with(in_empty_scope(function), total, value)


@dataclass
class _Group:
    """One group, in one window, while its changes are applied."""

    fold: FoldGroups
    group: str
    window: datetime | None
    before: Change | None = None
    value: str | None = None
    timestamp: datetime | None = None
    stream: str | None = None
    changed: bool = False

    def folded(self, changes: Iterable[Change]) -> Iterator[AggregatedRow]:
        for change in changes:
            yield from self._apply(change)
        yield from self._outcome()

    def _apply(self, change: Change) -> Iterator[AggregatedRow]:
        """Apply a change; yield a ``failed`` row if it failed, and the new contribution of its table row."""
        if change.op == "before":
            self.before, self.value, self.timestamp = change, change.value, change.timestamp
            return
        failure = self._problem_of(change)
        if failure is None:
            self.changed, self.stream = True, change.stream
            times = (self.timestamp, change.timestamp)
            newest = self.fold.plan.kind == "toTable"
            self.timestamp = change.timestamp if newest else max(filter(None, times), default=None)
        else:
            row = change.id or self.group
            yield AggregatedRow("failed", row, timestamp=change.timestamp, source=change.source, problem=failure)
        # A contribution that could not be subtracted is still in its group.
        if change.last and (change.op == "add" or failure is None):
            live = change.op == "add" and failure is None
            yield AggregatedRow("contribution", change.id, change.value, grp=self.group, live=live)

    def _outcome(self) -> Iterator[AggregatedRow]:
        """The new row of the group, if it changed.

        Over a stream a group that got records is always written, because its row has the time of the newest one. Over a
        table a row with an unchanged value is not written, and the time of its group is stored separately.
        """
        if not self.changed:
            return
        before = None if self.before is None else self.before.value
        if not isinstance(self.fold.plan.origin, str) or self.value != before:
            yield AggregatedRow("write", self.group, self.value, self.timestamp, self.window, self.stream)
            if before is not None and self.value is None:
                yield AggregatedRow("time", self.group, live=False)
        elif self.before is not None and self.timestamp != self.before.timestamp:
            yield AggregatedRow("time", self.group, timestamp=self.timestamp, live=True)

    def _problem_of(self, change: Change) -> Problem | None:
        """Apply a change to the total; return the problem if it failed."""
        try:
            self.value = self.fold.total_after(change, self.value)
        except SerializationError as error:
            return problem("value cannot be used", str(error), change.value)
        except AUTHORS_CODE_FAILED as error:
            return problem("aggregation failed", account_of_failure(error, frames=3), change.value)
        return None


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Change]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in Change._fields]
        yield from map(Change._make, zip(*columns, strict=True))
