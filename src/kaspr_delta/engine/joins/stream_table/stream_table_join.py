"""The join of a stream with a table: each record meets the row of its key, or of the key that a function computes.

The counterpart of Kafka Streams' ``KStream-KTable`` and ``KStream-GlobalKTable`` joins. Beyond these, records without a
row may wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Begun, Fold, Found
from kaspr_delta.engine.joins.stream_table.seen import with_row
from kaspr_delta.engine.joins.stream_table.stream_table import StreamTable, StreamTableState
from kaspr_delta.engine.rows.local_rows import LocalRows, are_few, fetched, few_or_all, numbered_as, union_all
from kaspr_delta.engine.rows.rows import FALSE, TRUE, Rows, exists, first_of, text, with_problem
from kaspr_delta.engine.rows.rows_by_key import few_keys
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.engine.streams.table_versions import newest_rows
from kaspr_delta.plan.definition.joins import StreamTableJoinPlan
from kaspr_delta.serde.instants import microseconds, moment_of
from kaspr_delta.storage.tables import Upsert

# The columns of a waiting record, beside its ``id`` and ``left``.
_WAITING = ("key", "look_up", "source", "timestamp", "until")
# The digits of the greatest offset.
_DIGITS = 19


class StreamTableJoin(StreamTable[StreamTableJoinPlan]):
    """Inner and left joins; the table may be global."""

    @property
    def timed(self) -> bool:
        return self.plan.pending is not None

    @property
    def follows_changes(self) -> bool:
        return not self.plan.is_global

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Decide nothing: the stream goes on where the previous checkpoint ended."""
        began, positions = self.start(spark, state)
        return Decision(LocalRows.none(spark), 0, asdict(began)), positions

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        spark, before = changes.spark, StreamTableState.of(state)
        # Step 1: touched.
        arrived = fetched(changes.filter(exists("source")), self.delta.limits.few)
        records = self.left.read(arrived, self._selector)
        # Step 2: pinned.
        version = self.right.newest(spark).version
        after = self.after(spark, before, arrived, version)
        parts = []
        if self.plan.pending is not None and before.until is not None:
            parts.append(self._no_longer_waiting(spark, version))
        # Step 3: recompute. Step 4: every record is a change.
        if records.max_rows != 0:
            after = replace(after, fresh=False)
            keys = few_keys(records.select(nw.col("look_up").alias("key")))
            parts.append(self._joined(records, self.rows_seen(spark, before, version, keys)))
        return self._decision(records, parts, arrived.count(), after)

    def is_due(self, state: Mapping[str, Any], *, ending: bool) -> bool:
        until = StreamTableState.of(state).until
        return until is not None and until <= _now()

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        if not self.is_due(state, ending=ending):
            return None
        before = StreamTableState.of(state)
        waiting = [self._no_longer_waiting(spark, self.right.newest(spark).version)]
        decision = self._decision(LocalRows.none(spark), waiting, 0, before)
        # The rows in are the records that no longer wait.
        return replace(decision, rows_in=1 if decision.effects.max_rows is None else decision.effects.max_rows)

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        return [] if self.plan.pending is None else [partial(self._fold_waiting, rows)]

    @property
    def _selector(self) -> Selector | None:
        if self.plan.mapper is None:
            return None
        return Selector(self.plan.mapper, self.right.text, "extractor", "key", self.event_timeout)

    def _decision(self, records: Rows, parts: list[Rows], rows_in: int, after: StreamTableState) -> Decision:
        if not parts:
            return Decision(LocalRows.none(records.spark), rows_in, asdict(after))
        # Records that waited come first, then records of this batch in order of arrival.
        order = ("came", "id", "offset")
        effects = numbered_as(records, union_all(parts), order, ("partition",), self.delta.limits.few)
        effects = effects.drop("came", "offset")
        if self.plan.pending is not None:
            after = replace(after, until=self._first_to_give_up(effects, self.plan.pending))
        return Decision(effects, rows_in, asdict(after))

    def _fitting(self, rows: Rows, value: str) -> Rows:
        """Add ``fits``: whether a value of the table can be read. SQL may have written text that is not JSON."""
        return rows.derive("fits", self.right.readable, value).with_columns(fits=nw.col("fits") | ~exists(value))

    def _joined(self, records: Rows, versions: Rows) -> Rows:
        """The rows of the log for rows of RECORD and the versions of the table rows that they may see."""
        timed = records.so_far("stream_time", "timestamp", ("source", "partition"), ("offset",))
        met = with_row(timed, versions).filter(exists("value") | exists("problem"))
        if self.plan.pending is not None:  # the row may come later in the same batch: then the record need not wait
            newest = nw.when(nw.col("fits")).then(nw.col("newest"))
            met = self._fitting(met, "newest").with_columns(stored=nw.coalesce(nw.col("stored"), newest)).drop("fits")
        met = self._fitting(met, "stored").with_columns(right=nw.when(nw.col("fits")).then(nw.col("stored")))
        detail = text("the row of the table is not JSON text: repair or delete it")
        reason = text("right value cannot be read")
        met = with_problem(met, ~nw.col("fits"), reason=reason, detail=detail, value=nw.col("stored"))
        waits = (exists("look_up") & ~exists("stored")) if self.plan.pending is not None else FALSE
        met = met.with_columns(waits=waits, failed=exists("problem"))
        shown = ~nw.col("unreadable") & ~nw.col("waits") & (TRUE if self.plan.type == "left" else exists("right"))
        logged = nw.col("waits") | nw.col("failed")
        met = met.with_columns(kind=first_of((shown, text("value")), (logged, text("state")), otherwise=text(None)))
        # An unreadable record shows its own key in its dead letter.
        key = nw.col("key")
        if not self.plan.is_global:
            key = first_of((nw.col("unreadable"), key), otherwise=nw.col("look_up"))
        of_waiting = {"until": nw.lit(moment_of((_now() + (self.plan.pending or 0)) * 1_000)), "live": TRUE}
        return (
            met.filter(exists("kind"))
            .extend(_with_numbers, "number STRING", _with_numbers_in_spark)
            .select(
                key.alias("key"),
                "kind",
                nw.when(~nw.col("unreadable")).then(nw.col("value")).alias("left"),
                "right",
                "timestamp",
                "source",
                "partition",
                "offset",
                TRUE.alias("came"),
                "look_up",
                nw.when(nw.col("waits")).then(nw.concat_str("source", "number", separator="/")).alias("id"),
                *(nw.when(nw.col("waits")).then(value).alias(name) for name, value in of_waiting.items()),
                "problem",
                "failed",
            )
        )

    def _no_longer_waiting(self, spark: SparkSession, version: int) -> Rows:
        """The rows of the log for waiting records whose row has come, or whose time is over."""
        waiting = self._waiting(spark, "id", "left", *_WAITING)
        found = newest_rows(self.right, spark, version, waiting.select(nw.col("look_up").alias("key")))
        found = self._fitting(found, "value").filter(nw.col("fits"))
        found = found.select(nw.col("key").alias("look_up"), nw.col("value").alias("right"))
        shown = TRUE if self.plan.type == "left" else exists("right")
        ended = nw.col("until") <= nw.lit(moment_of(_now() * 1_000))
        return (
            waiting.join(found, "look_up")
            .filter(exists("right") | ended)
            .select(
                "key",
                first_of((shown, text("value")), otherwise=text("state")).alias("kind"),
                "left",
                "right",
                "timestamp",
                "source",
                nw.lit(0, nw.Int32).alias("partition"),
                nw.lit(0, nw.Int64).alias("offset"),
                FALSE.alias("came"),
                "look_up",
                "id",
                "until",
                FALSE.alias("live"),
                FALSE.alias("failed"),
            )
        )

    def _waiting(self, spark: SparkSession, *columns: str) -> Rows:
        """The waiting records: on the driver if they are few and no Spark job is needed."""
        scan = self.delta.scan(spark, self.plan.waiting)
        return few_or_all(scan, spark, columns, self.delta.limits.few)

    def _first_to_give_up(self, effects: Rows, pending: int) -> int | None:
        """A time before which no record that waits after this batch gives up; None if no record waits."""
        waiting = self._waiting(effects.spark, "id", "until")
        few = are_few(self.delta.limits, effects)
        if few:
            leaving, coming = effects.filter(~nw.col("live")).select("id"), effects.filter(nw.col("live"))
            waiting = waiting.join(leaving, "id", "left_anti").union(coming.select("id", "until"))
        least = waiting.least("until")
        first = None if least is None else microseconds(least) // 1_000
        if few:
            return first
        # Many effects are not searched for waiting records: the first tick after their time finds whether any wait.
        latest = _now() + pending
        return latest if first is None else min(first, latest)

    def _fold_waiting(self, rows: Rows) -> None:
        states = rows.filter(exists("id")).select("id", "left", *_WAITING, "live")
        upsert = Upsert(on=("id",), compare=("left",), also=_WAITING, keep="live")
        self.delta.merge(rows.spark, states.frame, self.plan.waiting, upsert)


def _with_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add ``number``: the offset as text, so that texts have the order of offsets."""
    for batch in batches:
        yield batch.append_column("number", pc.utf8_lpad(batch.column("offset").cast(pa.string()), _DIGITS, "0"))


def _with_numbers_in_spark(rows: DataFrame) -> DataFrame:
    return rows.withColumn("number", F.lpad(F.col("offset").cast("string"), _DIGITS, "0"))


def _now() -> int:
    return time.time_ns() // 1_000_000
