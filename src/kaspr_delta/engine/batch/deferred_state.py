"""State that is folded later than the other tables of a resource, because only the resource itself reads it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.log import Log
from kaspr_delta.engine.batch.progress import BatchReport, Progress
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.engine.rows.local_rows import LocalRows, last_of_each_key
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.storage.layout import state_ref
from kaspr_delta.storage.tables import Tables

_NOTHING = BatchReport(0, 0, 0, 0, 0, 0.0)


@dataclass
class DeferredState:
    """The last batch whose state is in the state table of a resource, and the states of the batches after it.

    Progress has a row for the state only after the state has lagged once. Without one, the state is folded as far as
    everything else.
    """

    delta: Tables
    resource: Resource[Any]
    # The states of batches that are folded except for their states, the oldest first.
    held: list[pa.Table] = field(default_factory=list, init=False)
    _folded: BatchId | None = field(default=None, init=False)
    _recorded: BatchId | None = field(default=None, init=False)

    def resume(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Fold the state from the log, up to the last folded batch (see ``folded_batches``)."""
        self.held.clear()
        ref = str(self.resource.ref)
        self._folded, self._recorded = (_newest(folded.get(name, {})) for name in (ref, state_ref(ref)))
        self.fold(spark)

    def note_lag(self, spark: SparkSession, first: BatchId) -> None:
        """Record how far the state is folded, before the batches from ``first`` on are folded without their states."""
        if self._recorded is None or self._recorded.checkpoint != first.checkpoint:
            self._record(spark, first.before)

    def note_folded(self, spark: SparkSession, last: BatchId, *, with_state: bool) -> None:
        """Note that the batches up to ``last`` are folded, with their states or without."""
        self._folded = last
        if with_state and self._recorded is not None:
            self._record(spark, last)

    def fold(self, spark: SparkSession) -> None:
        """Fold the state up to the last folded batch, if it lags. May be repeated.

        If ``held`` has states, they are all that is missing. After a start it is empty, and the log is read.
        """
        upto, recorded = self._folded, self._recorded
        if upto is None or recorded is None or recorded >= upto:
            return
        began = time.monotonic()
        after = recorded if recorded.checkpoint == upto.checkpoint else BatchId(upto.checkpoint).before
        if self.held:
            rows: Rows = LocalRows(spark, newest_states(self.held))
        else:
            rows = Log(self.delta, self.resource.log_table).between(spark, after, upto)
        counts = json.dumps(dict(self.resource.fold_states(rows, several=not self.held)))
        self.held.clear()
        self._record(spark, upto, replace(_NOTHING, seconds=time.monotonic() - began, counts=counts))

    def _record(self, spark: SparkSession, upto: BatchId, report: BatchReport = _NOTHING) -> None:
        Progress(self.delta, state_ref(str(self.resource.ref))).record(spark, upto, report)
        self._recorded = upto


def newest_states(states: Sequence[pa.Table]) -> pa.Table:
    """The last row of each key, in states of successive batches, the oldest first."""
    return last_of_each_key(pa.concat_tables(states), ["key"]).combine_chunks()


def _newest(folded: Mapping[str, int]) -> BatchId | None:
    """The last folded batch of the newest checkpoint; ``folded`` has one batch per checkpoint."""
    return max((BatchId(checkpoint, number) for checkpoint, number in folded.items()), default=None)
