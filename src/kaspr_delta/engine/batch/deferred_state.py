"""The state of a resource while it stays behind what else the resource keeps, where nobody else reads it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.log import Log
from kaspr_delta.engine.batch.progress import BatchReport, Progress
from kaspr_delta.engine.batch.resource import FoldsTogether, Resource
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.storage.layout import state_ref
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NOTHING = BatchReport(0, 0, 0, 0, 0, 0.0)


@dataclass
class DeferredState:
    """How far the state of one resource is folded, and what batches left that it lacks.

    Progress tells it from when the state was behind for the first time; before, it is as far as all else.
    """

    delta: Tables
    resource: Resource
    # What batches left that are folded but for their states, the oldest first.
    held: list[pa.Table] = field(default_factory=list, init=False)
    _folded: BatchId | None = field(default=None, init=False)
    _told: BatchId | None = field(default=None, init=False)

    def resume(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Bring the state up to what is folded (see ``folded_batches``), as the log has it."""
        self.held.clear()
        ref = str(self.resource.ref)
        self._folded, self._told = (_newest(folded.get(name, {})) for name in (ref, state_ref(ref)))
        self.fold(spark)

    def stays(self, spark: SparkSession, first: BatchId) -> None:
        """Called before batches, from a first one on, are folded without their states."""
        if self._told is None or self._told.checkpoint != first.checkpoint:
            self._tell(spark, first.before)

    def followed(self, spark: SparkSession, last: BatchId, *, states: bool) -> None:
        """Called when batches up to a last one are folded, with their ``states`` or without."""
        self._folded = last
        if states and self._told is not None:
            self._tell(spark, last)

    def fold(self, spark: SparkSession) -> None:
        """Bring the state up to the last batch that is folded but for it, if it is behind. May be repeated.

        What is held is all that it lacks; who has just started finds that in the log.
        """
        upto, told = self._folded, self._told
        if upto is None or told is None or told >= upto or not isinstance(self.resource, FoldsTogether):
            return
        began = time.monotonic()
        after = told if told.checkpoint == upto.checkpoint else BatchId(upto.checkpoint).before
        if self.held:
            rows = Rows.held(spark, last_of_each_key(self.held))
        else:
            rows = Log(self.delta, self.resource.log_table).between(spark, after, upto)
        counts = json.dumps(dict(self.resource.fold_states(rows, several=not self.held)))
        self.held.clear()
        self._tell(spark, upto, replace(_NOTHING, seconds=time.monotonic() - began, counts=counts))

    def _tell(self, spark: SparkSession, upto: BatchId, report: BatchReport = _NOTHING) -> None:
        Progress(self.delta, state_ref(str(self.resource.ref))).record(spark, upto, report)
        self._told = upto


def last_of_each_key(states: Sequence[pa.Table]) -> pa.Table:
    """What successive batches left, the oldest first: of each key the last row."""
    rows = pa.concat_tables(states)
    numbered = rows.append_column("n", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by("key").aggregate([("n", "max")])["n_max"]
    return rows.take(last).combine_chunks()


def _newest(folded: Mapping[str, int]) -> BatchId | None:
    """Of the last folded batches by checkpoint that of the newest."""
    return max((BatchId(checkpoint, number) for checkpoint, number in folded.items()), default=None)
