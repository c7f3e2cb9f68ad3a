"""The batch that every resource runs, and the streaming query around it.

*The feed names the keys, pinned snapshots give the values, one append commits, everything else is a fold.*
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kaspr_delta.engine.batch.base64_state import put_on_one_line
from kaspr_delta.engine.batch.batch_timing import BatchTiming
from kaspr_delta.engine.batch.checkpoint import BROKEN_BASE64, STATE_FORMAT, BatchId, Start, new_checkpoint
from kaspr_delta.engine.batch.folding import Committed, Folding
from kaspr_delta.engine.batch.log import Log, LogTail, Memo
from kaspr_delta.engine.batch.progress import BatchReport, folded_batches
from kaspr_delta.engine.batch.resource import Decision, FoldsTogether, Resource, StreamedResource
from kaspr_delta.engine.batch.source_errors import TABLE_REPLACED, is_gap, why_the_feed_ends
from kaspr_delta.engine.batch.topic_commit import DirectAppend, appended
from kaspr_delta.engine.rows.local_rows import LocalRows, are_few
from kaspr_delta.engine.rows.planning import plan_for
from kaspr_delta.errors import KasprError, RebuildNeededError, SetupError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.stream_checkpoint import positions_in, remove_unfinished
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Result = TypeVar("Result")
# Statements are planned on the driver: more of them at once would only wait for each other.
_SIDE_BY_SIDE = 4


@dataclass
class Query:
    """A resource with its log and, once it has recovered, its checkpoint.

    Spark Connect ships a copy to a process of its server, which runs the batches of the stream; ticks stay in the
    process that made it. From then on both read the other's commits from the log.
    """

    delta: Tables
    resource: Resource
    # The queries that share this resource's tables: their committed batches are folded before this query reads.
    companions: tuple[Query, ...] = ()
    # Called with the report of every folded batch, if the query runs in this process.
    listener: Callable[[BatchReport], None] | None = None
    log: Log = field(init=False)
    folding: Folding = field(init=False)
    # The error that stopped the query, if it runs in this process.
    failure: Exception | None = field(default=None, init=False)
    _start: Start | None = field(default=None, init=False)
    # The batch of the log with which the stream begins.
    _begun: BatchId = field(default=BatchId(""), init=False)
    _last: BatchId = field(default=BatchId(""), init=False)
    _memo: Memo = field(default=Memo(), init=False)
    # By source the table's version at the start of a stream: the last one of this run that ended by itself, and the
    # one that runs now.
    _processed: Mapping[str, int] = field(default_factory=dict, init=False)
    _running: Mapping[str, int] = field(default_factory=dict, init=False)
    _shipped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.delta, self.resource.log_table)
        self.folding = Folding(self.delta, self.resource)

    def __getstate__(self) -> dict[str, Any]:
        self._shipped = True
        return {**self.__dict__, "listener": None}  # the server has no listener

    def recover(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Before the first batch, fold the batches that a killed run had committed (see ``folded_batches``).

        A resource without a checkpoint begins its first. Raises RebuildNeededError when the state is that of another
        definition, and SetupError when it has another format.
        """
        with self.delta.namespace.turn(self.resource.turn):
            # Companions may fold for this query, in another process too: so progress is read during the turn.
            tail = self._finish(spark, folded_batches(self.delta, spark) if self.companions else folded)
            if tail.start is not None:
                self._check(tail.start)
            if self._mended(spark, tail):
                self._begin(spark, tail)
            else:
                self._go_on(spark, tail)

    def ended(self, spark: SparkSession) -> None:
        """End a stream that has processed everything that was present at its start."""
        self._processed = self._running
        self.settle(spark)
        if self._start is not None and self._start.tables:
            with self.delta.namespace.turn(self.resource.turn):
                self._learn(spark)
                self._continue(self._start, spark, self._streamed().upto(self._running))

    def settle(self, spark: SparkSession, *, if_due: bool = False) -> None:
        """Fold the committed batches that wait; with ``if_due`` only if they have waited long enough."""
        folding = self.folding
        wanted, fold = (folding.due, folding.fold_due) if if_due else (folding.waits, folding.settle)
        if wanted:
            with self.delta.namespace.turn(self.resource.turn):
                self._tell(fold(spark))

    def sources_changed(self, spark: SparkSession) -> bool:
        """Whether the resource now reads other sources than its checkpoint does."""
        return self._start is not None and set(self.resource.sources(spark)) != set(self._start.positions)

    def follow_sources(self, spark: SparkSession) -> None:
        """Begin a new checkpoint if the resource now reads other sources. Its stream must have stopped."""
        if self.sources_changed(spark):
            with self.delta.namespace.turn(self.resource.turn):
                self._go_on(spark, self._finish(spark, folded_batches(self.delta, spark)))

    def rebuild(self, spark: SparkSession) -> None:
        """Make the state anew from the current tables. Differences are emitted, in one commit."""
        with self.delta.namespace.turn(self.resource.turn):
            tail = self._finish(spark, folded_batches(self.delta, spark))
            self._mended(spark, tail)
            self._begin(spark, tail, again=True)

    def fill_gap(self, spark: SparkSession, error: Exception) -> bool:
        """Continue without the change feed if changes are gone from it; return whether that worked.

        Records are read from the rows of their topic. Resources without such rows make their state anew, if the
        application says so.
        """
        if not is_gap(self.failure or error):
            return False
        if self.resource.fills_gaps:
            self.failure = None
            self.rebuild(spark)
            return True
        with self.delta.namespace.turn(self.resource.turn):
            tail, steps = self._finish(spark, folded_batches(self.delta, spark)), BatchTiming()
            caught_up = self.resource.catch_up(spark, tail.memo.state)
            if caught_up is None:
                return False
            self.failure = None
            self._begin_with(spark, tail, steps, caught_up)
            return True

    def start(self, spark: SparkSession, every: int | None) -> StreamingQuery | None:
        """Start the query: until everything present is processed, or, with an interval, until it is stopped.

        None if there is nothing to do: no topic matches a pattern, or all commits to its sources have been processed.
        The second is checked without an interval, and always if the start has table ids.
        """
        if self._start is None:
            msg = f"{self.resource.ref} was not recovered"
            raise RuntimeError(msg)
        if self.failure is not None:  # it may have committed a batch without folding it
            self.failure = None
            self.recover(spark, folded_batches(self.delta, spark))
        self.settle(spark)  # waiting batches belong to the session of the stream before
        self.folding.lasting = every is not None
        if self._shipped:
            with self.delta.namespace.turn(self.resource.turn):
                self._learn(spark)
        self._running = {
            source: 0 if table is None else self.delta.newest(spark, table).version
            for source, table in self._tables_read.items()
        }
        if not self._running or (every is None and self._has_read_all(spark)):
            return None
        unread = self._unread(spark, self._start)
        if not unread.positions:  # a run that died had read all news
            return None
        stream = self._streamed().source(spark, unread)
        remove_unfinished(self._checkpoint)
        writer = stream.writeStream.foreachBatch(self._process)
        writer = writer.option("checkpointLocation", str(self._checkpoint)).queryName(str(self.resource.ref))
        if every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every} milliseconds").start()

    def process(self, batch: DataFrame, batch_id: int) -> None:
        """Run one batch. After a crash between two of its writes, the next start completes it."""
        steps, spark = BatchTiming(), batch.sparkSession
        with self._turn(spark):
            if self.resource.timed:  # otherwise only the stream commits while it runs
                self._learn(spark)
            # A replay that finds its batch in the log computes nothing: `recover` has folded it.
            if batch_id <= self._memo.stream:
                return
            # Steps 1-4: touched, pinned, recompute, difference.
            decision = self._decide(batch)
            plan_for(spark, few=are_few(decision.effects))
            self._commit(spark, decision, batch_id, steps)

    def tick(self, spark: SparkSession, *, ending: bool) -> int:
        """Run a batch, outside the stream, for work that the clock has made due; return the number of its rows."""
        steps = BatchTiming()
        with self._turn(spark):
            self._learn(spark)
            decision = self.resource.due(spark, self._memo.state, ending=ending)
            if decision is None:
                return 0
            self._commit(spark, decision, self._memo.stream, steps)
            return decision.rows_in

    def account_of(self, error: Exception) -> Exception:
        """The error that stopped the query, with a clearer reason if one is known."""
        error = self.failure or error
        reason = why_the_feed_ends(error)
        return error if reason is None else self._cannot_go_on(reason)

    def _cannot_go_on(self, reason: str) -> KasprError:
        """The error with this reason and the remedy: a rebuild, or deletion and a new beginning."""
        ref = self.resource.ref
        if self.resource.definition:
            return RebuildNeededError(str(ref), reason)
        return SetupError(
            f"{ref} cannot go on: {reason}. Delete it (kaspr-delta delete {ref.kind} {ref.name} --purge) and apply it"
            " again: it begins where its `start` says"
        )

    @property
    def _tables_read(self) -> Mapping[str, str | None]:
        """By source, its Delta table; None for a place elsewhere."""
        return {} if self._start is None else {one: self._streamed().table_of(one) for one in self._start.positions}

    def _has_read_all(self, spark: SparkSession) -> bool:
        """Whether all current versions of the tables were read, by a stream of this run or by an earlier one.

        Only Spark's checkpoint, or the start with which the last stream ended, knows what earlier ones read: a batch
        that changes nothing leaves no trace in the log, and a large commit comes in several batches.
        """
        if self._processed:
            return self._running == self._processed
        if self._start is not None and self._start.tables:
            return not self._news(self._start) and self._start.tables == self._table_ids(spark)
        tables = sorted(self._tables_read.items())
        if any(table is None for _, table in tables):
            return False
        positions = positions_in(self._checkpoint)
        return len(positions) == len(tables) and all(
            position is not None
            and position.has_read(
                self._running[source], self.delta.change_file_count(str(table), self._running[source])
            )
            and position.table_id == self.delta.table_id(spark, str(table))
            for (source, table), position in zip(tables, positions, strict=True)
        )

    @property
    def _checkpoint(self) -> Path:
        return checkpoints_of(self.delta, self.resource.ref) / self._begun.name

    def _table_ids(self, spark: SparkSession) -> Mapping[str, str]:
        """By source, its table's id, if each stream has a checkpoint of its own; empty if streams are continued."""
        if self.delta.namespace.streams_go_on or not isinstance(self.resource, StreamedResource):
            return {}
        tables = {source: self.resource.table_of(source) for source in self.resource.sources(spark)}
        if None in tables.values():  # a place elsewhere: only the stream knows how far it has read
            return {}
        return {source: str(self.delta.table_id(spark, str(table))) for source, table in tables.items()}

    def _news(self, start: Start) -> dict[str, int]:
        """The sources whose tables have new commits, with their positions."""
        newest = self._streamed().upto(self._running)
        return {source: position for source, position in start.positions.items() if position < newest[source]}

    def _unread(self, spark: SparkSession, start: Start) -> Start:
        """The start of the next stream: with all sources, or, if it has a checkpoint of its own, those with news.

        In the second case a stream whose run died is not continued: the log says how far its batches came.
        """
        if not start.tables:
            return start
        tables = self._table_ids(spark)
        if tables != start.tables:
            raise self._cannot_go_on(TABLE_REPLACED)
        if self._checkpoint.exists():
            reached = self._streamed().reached(self._memo.state)
            there = {source: max(at, reached.get(source, at)) for source, at in start.positions.items()}
            with self.delta.namespace.turn(self.resource.turn):
                start = self._continue(start, spark, there)
        return replace(start, positions=self._news(start))

    def _continue(self, start: Start, spark: SparkSession, positions: Mapping[str, int]) -> Start:
        """Begin a new stream at the positions that the one before has reached."""
        before, this = self._checkpoint, self._last.next
        start, memo = replace(start, positions=positions), Memo(state=self._memo.state)
        self.log.begin(LocalRows.none(spark), this, memo, start)
        self._start, self._begun, self._last, self._memo = start, this, this, memo
        shutil.rmtree(before, ignore_errors=True)  # not needed any more: a kill before this line leaves only garbage
        return start

    def _streamed(self) -> StreamedResource:
        if not isinstance(self.resource, StreamedResource):
            msg = f"{self.resource.ref} reads no stream"
            raise TypeError(msg)
        return self.resource

    @contextmanager
    def _turn(self, spark: SparkSession) -> Iterator[None]:
        with self.delta.namespace.turn(self.resource.turn):
            if self.companions:
                folded = folded_batches(self.delta, spark)
                for companion in self.companions:
                    companion._finish(spark, folded)  # noqa: SLF001  under the turn that all share
            yield

    def _learn(self, spark: SparkSession) -> None:
        """Read from the log how to continue, if another process commits to it too."""
        if self._shipped:
            tail = self._finish(spark, folded_batches(self.delta, spark))
            self._last, self._memo = tail.last, tail.memo

    def _decide(self, batch: DataFrame) -> Decision:
        resource, state = self._streamed(), self._memo.state
        if isinstance(resource, FoldsTogether):
            return resource.decide(batch, state, self.folding.states)
        return resource.decide(batch, state)

    def _commit(self, spark: SparkSession, decision: Decision, stream: int, steps: BatchTiming) -> None:
        if decision.effects.most == 0 and decision.state == self._memo.state:
            return
        memo = Memo(stream, decision.rows_in, decision.counts, decision.state)
        steps.done("decide")
        # Step 5: commit.
        if decision.direct is not None and self._append_directly(spark, decision.direct, memo, steps):
            return
        this = self._last.next
        committed = Committed(this, self.log.append(decision.effects, this, memo), memo, steps)
        steps.done("commit")
        # Step 6: fold, now or later. If two processes decide, each must find everything in the tables.
        self._tell(self.folding.take(spark, committed, may_wait=not self._shipped))
        self._last, self._memo = this, memo

    def _append_directly(self, spark: SparkSession, direct: DirectAppend, memo: Memo, steps: BatchTiming) -> bool:
        """Commit a batch by the append to its topic. Returns False if that failed, most likely because of an event."""
        announced = direct.announcement(self.delta, spark)
        memo = replace(memo, direct=announced)
        this = self._last = self._last.next
        self.log.append(LocalRows.none(spark), this, memo)
        try:
            direct.commit(self.delta, this)
        except Exception:  # noqa: BLE001  committed through the log, it becomes a dead letter or fails again
            if appended(self.delta, spark, announced, this) is None:
                return False
        steps.done("commit")
        self._tell(self.folding.fold(spark, [Committed(this, LocalRows.none(spark), memo, steps)]))
        self._memo = memo
        return True

    def _go_on(self, spark: SparkSession, tail: LogTail) -> None:
        """Continue the newest checkpoint if it reads the sources of the resource; otherwise begin a new one."""
        if tail.start is None or set(self.resource.sources(spark)) != set(tail.start.positions):
            self._begin(spark, tail)
        else:
            # Earlier versions continued streams everywhere. Over tables of a catalog, their streams count as died.
            start = tail.start if tail.start.tables else replace(tail.start, tables=self._table_ids(spark))
            self._start, self._begun, self._last, self._memo = start, tail.begun, tail.last, tail.memo
        self._processed = {}

    def _begin(self, spark: SparkSession, tail: LogTail, *, again: bool = False) -> None:
        """Begin a new checkpoint: the same steps as in a batch, over all rows.

        A state that is made ``again`` is folded even without differences: dead letters may have to go.
        """
        steps = BatchTiming()
        begun = self.resource.begin(spark, tail.memo.state, log_is_new=tail.start is None)
        self._begin_with(spark, tail, steps, begun, again=again)

    def _begin_with(
        self,
        spark: SparkSession,
        tail: LogTail,
        steps: BatchTiming,
        begun: tuple[Decision, Mapping[str, int]],
        *,
        again: bool = False,
    ) -> None:
        """Begin a new checkpoint with ``begun``: a decision and the positions after it."""
        (decision, positions), first = begun, BatchId(new_checkpoint(tail.newest))
        start = Start(self.resource.definition, positions, tables=self._table_ids(spark))
        steps.done("decide")
        memo = Memo(-1, decision.rows_in, decision.counts, decision.state)
        logged = self.log.begin(decision.effects, first, memo, start)
        steps.done("commit")
        if again or decision.effects.most != 0:
            self._tell(self.folding.fold(spark, [Committed(first, logged, memo, steps)]))
        self._start, self._begun, self._last, self._memo = start, first, first, memo

    def _finish(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> LogTail:
        """Fold the committed batches that are not folded yet, and return the end of the log."""
        self.folding.resume(spark, folded)
        tail = self.log.tail(spark, folded.get(str(self.resource.ref), {}))
        # Together: a fold of them may have died half-way, and an older batch must not undo a newer one.
        unfolded = [Committed(batch, self.log.batch(spark, batch), memo) for batch, memo in tail.unfolded]
        if unfolded:
            self._tell(self.folding.fold(spark, unfolded))
        return tail

    def _mended(self, spark: SparkSession, tail: LogTail) -> bool:
        """Repair a state in whose format keys might not match; return whether any keys could have been affected.

        The state then has to be begun anew, as in a rebuild: only differences are emitted.
        """
        if tail.start is None or tail.start.format != BROKEN_BASE64:
            return False
        return put_on_one_line(self.delta, spark, self.resource.base64_columns)

    def _tell(self, reports: Iterable[BatchReport]) -> None:
        for report in reports:
            if self.listener is not None:
                self.listener(report)

    def _check(self, start: Start) -> None:
        """Raise RebuildNeededError if the state was made by another definition, SetupError if it has another format."""
        ref = self.resource.ref
        if start.format not in {STATE_FORMAT, BROKEN_BASE64}:
            msg = (
                f"the state of {ref} has format {start.format}, and this version of kaspr-delta keeps format"
                f" {STATE_FORMAT}: use the version that wrote it, or a new warehouse"
            )
            raise SetupError(msg)
        now = self.resource.definition
        changed = [name for name in {**start.definition, **now} if start.definition.get(name) != now.get(name)]
        if changed:
            verb = "has" if len(changed) == 1 else "have"
            raise RebuildNeededError(str(ref), f"its {' and '.join(changed)} {verb} changed since its state was made")

    def _process(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.process(batch, batch_id)
        except Exception as error:
            self.failure = error
            raise
        except BaseException as error:  # a panic of delta-rs: callers would not take it for a failure
            self.failure = RuntimeError(f"{type(error).__name__}: {error}")
            raise self.failure from error


def side_by_side(actions: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run independent Spark actions at the same time. The first failure is raised after all have ended."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return [done.result() for done in [pool.submit(action) for action in actions]]


def checkpoints_of(delta: Tables, ref: ResourceRef) -> Path:
    """The folder of a resource's checkpoints, including those that a rebuild replaced."""
    return delta.namespace.checkpoints / f"{ref.kind}-{ref.name}"
