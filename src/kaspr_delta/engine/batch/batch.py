"""The batch that every resource runs: its steps are numbered in ``BatchRunner.process``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.batch.checkpoint import BatchId, Start
from kaspr_delta.engine.batch.counters import BatchTiming
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.folding import Committed, Folding
from kaspr_delta.engine.batch.log import BatchMetadata, Log
from kaspr_delta.engine.batch.migrations import check_format
from kaspr_delta.engine.batch.progress import BatchReport, Reported, folded_batches
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.engine.batch.sources import SourceTable
from kaspr_delta.engine.batch.topic_commit import DirectAppend, announced_records
from kaspr_delta.engine.rows.local_rows import LocalRows, set_adaptive
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.errors import SetupError
from kaspr_delta.storage.layout import DELAY
from kaspr_delta.storage.lazy_session import check_unused
from kaspr_delta.storage.tables import Tables


@dataclass
class BatchRunner:
    """Runs the batches of a resource, and folds them.

    On Spark Connect the server runs the batches of the stream with a copy of this object, which itself runs the ticks
    (``shipped``, from the start of the stream on). Both read the log before they commit, if the resource has ticks.
    """

    delta: Tables
    resource: Resource[Any]
    # The resources that share tables with this one: their committed batches are folded before this one reads.
    companions: tuple[BatchRunner, ...] = ()
    # Called with the report of every folded batch, if the batch runs in this process.
    listener: Callable[[BatchId, BatchReport], None] | None = None
    log: Log = field(init=False)
    folding: Folding = field(init=False)
    # The error of the last batch, if it ran in this process: Spark's own error has only the text. No other batch runs
    # until recovery, because this one may be committed and not folded.
    failure: Exception | None = field(default=None, init=False)
    shipped: bool = field(default=False, init=False)
    # The time of the oldest change that a new stream reads, where it is known, until the first batch is committed.
    oldest_change: datetime | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.delta, self.resource.log_table)
        self.folding = Folding(self.delta, self.resource)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "listener": None}  # the server has no listener

    @property
    def stream_start(self) -> Start:
        """The start of the resource's stream. Raises RuntimeError before the recovery."""
        if self.log.end.start is None:
            msg = f"{self.resource.ref} was not recovered"
            raise RuntimeError(msg)
        return self.log.end.start

    def sources(self, spark: SparkSession) -> dict[str, SourceTable]:
        """The sources that the stream reads, by name: those that its start names."""
        began = self.stream_start.positions
        return {name: source for name, source in self.resource.sources(spark).items() if name in began}

    def sources_changed(self, spark: SparkSession) -> bool:
        """Whether the resource now reads other sources than its stream does. False before the first run."""
        start = self.log.end.start
        return start is not None and self.resource.sources(spark).keys() != start.positions.keys()

    def begin_stream(self, spark: SparkSession, start: Start) -> None:
        """Commit a new start of the stream: at its positions or, where it is later, after the last batch."""
        reached = self.resource.reached(self.log.end.metadata.state)
        positions = {source: max(at, reached.get(source, at)) for source, at in start.positions.items()}
        self.log.begin_stream(spark, start.at(positions))

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock of the resource's table group."""
        return self.delta.namespace.table_group_lock(self.resource.table_group)

    def run(self, changes: DataFrame, number: int) -> None:
        """Run one batch of the stream, and keep the error that stops it: Spark's own has only its text."""
        try:
            self.process(changes, number)
        except Exception as error:
            self._stop(error)
            raise
        except BaseException as error:
            raise self._stop(error) from error

    def process(self, changes: DataFrame, number: int) -> None:
        """Run one batch of the stream. After a crash between two of its writes, the next start completes it.

        1. touched: the changes name the keys. 2. pinned: the newest versions of the tables give the values (in a
        stream over a catalog, those that were the newest when it started).
        3. recompute: each touched key anew. 4. difference: what the resource has not emitted yet.
        5. commit: one append to the log. 6. fold: the log into the resource's tables, now or later.
        """
        timing, spark = BatchTiming(), changes.sparkSession
        with self._locked(spark):
            if self.resource.timed:  # a tick may have committed since the last batch
                self.read_log_end(spark)
            # `stream` is the number of Spark's last batch in the log. A replay of it is skipped: recovery folded it.
            if number <= self.log.end.metadata.stream:
                return
            decision = self.resource.decide_early(
                SparkRows(changes), self.log.end.metadata.state, self.folding.unmerged
            )  # 1 to 4
            set_adaptive(spark, self.delta.limits, decision.effects)
            decision = replace(decision, counts={**decision.counts, **self._delay()})
            self._commit(spark, decision, number, timing)  # steps 5 and 6

    def process_here(self, changes: Rows, start: Start) -> None:
        """Run one batch over rows that are all on the driver, without a stream. The next stream begins at ``start``."""
        timing, spark = BatchTiming(), changes.spark
        with self._locked(spark):
            decision = self.resource.decide_early(changes, self.log.end.metadata.state, self.folding.unmerged)  # 1 to 4
            check_unused(spark)
            following = self.log.end.last.next
            after = replace(start, stream=f"{following.checkpoint}-{following.number:09d}")
            self._commit(spark, decision, -1, timing, after)  # steps 5 and 6

    def tick(self, spark: SparkSession, *, ending: bool) -> int:
        """Run a batch that the clock has made due; return the number of its input rows: 0 after a failure."""
        if self.failure is not None:
            return 0
        timing = BatchTiming()
        with self._locked(spark):
            self.read_log_end(spark)
            decision = self.resource.due(spark, self.log.end.metadata.state, ending=ending)
            check_unused(spark)
            if decision is None:
                return 0
            if ending and self.stream_start.tables:  # no stream runs: the next look finds its start in the last batch
                self._commit(spark, decision, -1, timing, self.stream_start)
            else:
                self._commit(spark, decision, self.log.end.metadata.stream, timing)
            return decision.rows_in

    def fold_pending(self, spark: SparkSession, *, if_due: bool = False) -> None:
        """Fold the committed batches that wait, and deferred states; with ``if_due`` only batches, when due."""
        folding = self.folding
        if folding.due if if_due else folding.has_pending:
            with self.lock:
                self.report(folding.fold_due() if if_due else folding.fold_all(spark))

    def fold_unfolded(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Read the end of the log, and fold the batches that are not ``folded`` yet (see ``folded_batches``).

        The caller has the lock of the table group. Raises SetupError for a format that this version cannot read.
        """
        unfolded = self.log.read_end(spark, folded.get(str(self.resource.ref), {}))
        start = self.log.end.start
        if start is not None:
            check_format(self.resource.ref, start.format)
        if unfolded and start is not None and start.definition != self.resource.definition:
            self._check_columns(spark, [metadata for _, metadata in unfolded])
        self.folding.resume(spark, folded)
        # Together: a fold of them may have died half-way, and an older batch must not undo a newer one.
        log = self.log
        committed = [Committed(one, log.unfolded(spark, one.before, one), metadata) for one, metadata in unfolded]
        if committed:
            self.report(self.folding.fold(spark, committed))

    def _check_columns(self, spark: SparkSession, unfolded: Sequence[BatchMetadata]) -> None:
        """Raise SetupError if batches that another definition has committed do not fit the result of this one."""
        if any(one.replaces for one in unfolded) or self.resource.has_other_columns(spark):
            raise SetupError(
                f"{self.resource.ref} has batches of its definition before this one, which a killed run did not fold,"
                " and the results of the two have other columns: apply the definition before this one, run it once, and"
                " apply this one again"
            )

    def read_log_end(self, spark: SparkSession) -> None:
        """Read from the log how to continue, if another process commits to it too. The caller has the lock."""
        if self.shipped:
            self.fold_unfolded(spark, folded_batches(self.delta, spark))

    def report(self, reports: Iterable[Reported]) -> None:
        for batch, report in reports:
            if self.listener is not None:
                self.listener(batch, report)

    @contextmanager
    def _locked(self, spark: SparkSession) -> Iterator[None]:
        """Have the lock of the table group for a batch. Raises the error of the last batch, if it failed."""
        with self.lock:
            if self.failure is not None:
                raise self.failure
            try:
                if self.companions:
                    folded = folded_batches(self.delta, spark)
                    for companion in self.companions:
                        companion.fold_unfolded(spark, folded)
                yield
            except BaseException as error:
                self._stop(error)
                raise

    def _stop(self, error: BaseException) -> Exception:
        """Keep the error that stops the resource; a panic of delta-rs, which is no Exception, as one. Return it."""
        self.failure = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
        return self.failure

    def _commit(
        self, spark: SparkSession, decision: Decision, stream: int, timing: BatchTiming, start: Start | None = None
    ) -> None:
        """Commit a decision and fold it, now or later. A ``start`` is written even if nothing changes."""
        nothing = decision.effects.max_rows == 0 and decision.state == self.log.end.metadata.state
        if nothing and start is None:
            return
        metadata = BatchMetadata(
            stream,
            0 if nothing else decision.rows_in,
            decision.counts,
            decision.state,
            folds=start is not None and not nothing,
        )
        timing.done("decide")
        # Step 5: commit.
        if decision.direct is not None and self._append_directly(spark, decision.direct, metadata, timing):
            return
        committed = Committed(*self.log.commit(decision.effects, metadata, start), metadata, timing)
        timing.done("commit")
        if nothing:
            return
        # Step 6: fold, now or later. With a copy on a server, fold at once: it does not see batches that wait here.
        self.report(self.folding.fold_or_wait(spark, committed, may_wait=not self.shipped))

    def _delay(self) -> dict[str, int]:
        """The counter of the delay in the first batch of a stream, by two machines' clocks: no answer depends on it."""
        oldest, self.oldest_change = self.oldest_change, None
        return {} if oldest is None else {DELAY: max(0, round((datetime.now(timezone.utc) - oldest).total_seconds()))}

    def _append_directly(
        self, spark: SparkSession, direct: DirectAppend, metadata: BatchMetadata, timing: BatchTiming
    ) -> bool:
        """Commit a batch by the append to its topic. Returns False if that failed, most likely because of an event."""
        announced = direct.announcement(self.delta, spark)
        metadata = replace(metadata, direct=announced)
        committed = Committed(*self.log.commit(LocalRows.none(spark), metadata), metadata, timing)
        try:
            direct.commit(self.delta, committed.id)
        except Exception:  # noqa: BLE001  computed again for the log, the event is a dead letter, or it fails there
            if announced_records(self.delta, spark, announced, committed.id) is None:
                return False
        timing.done("commit")
        self.report(self.folding.fold(spark, [committed]))
        return True
