"""The batch that every stateful resource runs, and the streaming query around it.

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
from kaspr_delta.engine.rows.planning import plan_for
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.errors import KasprError, RebuildNeededError, SetupError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.stream_checkpoint import positions_in, remove_unfinished
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Result = TypeVar("Result")
# Statements are planned on the driver: more at once would only wait for each other.
_SIDE_BY_SIDE = 4


@dataclass
class Query:
    """A resource with its log and, once it has recovered, its checkpoint.

    Spark Connect ships it to a process of its server, which runs the batches of the stream; ticks stay where it was
    made. From then on each of the two learns from the log what the other has committed.
    """

    delta: Tables
    resource: Resource
    # Those that share this resource's tables: what one of them had committed is folded before this one reads.
    companions: tuple[Query, ...] = ()
    # Told of every batch once it is folded, where the query runs in this process.
    listener: Callable[[BatchReport], None] | None = None
    log: Log = field(init=False)
    folding: Folding = field(init=False)
    # What stopped the query, where it runs in this process.
    failure: Exception | None = field(default=None, init=False)
    _start: Start | None = field(default=None, init=False)
    # The batch of the log with which the stream begins.
    _begun: BatchId = field(default=BatchId(""), init=False)
    _last: BatchId = field(default=BatchId(""), init=False)
    _memo: Memo = field(default=Memo(), init=False)
    # The tables it reads as they were before the last stream of this run that ended by itself, or that runs now.
    _processed: Mapping[str, int] = field(default_factory=dict, init=False)
    _running: Mapping[str, int] = field(default_factory=dict, init=False)
    _shipped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.delta, self.resource.log_table)
        self.folding = Folding(self.delta, self.resource)

    def __getstate__(self) -> dict[str, Any]:
        self._shipped = True
        return {**self.__dict__, "listener": None}  # nobody listens on the server

    def recover(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Before the first batch: finish what a killed run had committed but not folded (see ``folded_batches``).

        A resource without a state makes its first. Raises RebuildNeededError when the state is that of another
        definition, and SetupError when it has another format.
        """
        with self.delta.namespace.turn(self.resource.turn):
            # Companions may fold for this one, in another process too: what is folded counts from when it is our turn.
            tail = self._finish(spark, folded_batches(self.delta, spark) if self.companions else folded)
            if tail.start is not None:
                self._check(tail.start)
            if self._mended(spark, tail):
                self._begin(spark, tail)
            else:
                self._go_on(spark, tail)

    def ended(self, spark: SparkSession) -> None:
        """The stream has processed all there was when it started."""
        self._processed = self._running
        self.settle(spark)
        if self._start is not None and self._start.tables:
            with self.delta.namespace.turn(self.resource.turn):
                self._learn(spark)
                self._continue(self._start, spark, self._streamed().upto(self._running))

    def settle(self, spark: SparkSession, *, if_due: bool = False) -> None:
        """Fold what was committed and still waits for that; or only if it has waited long enough."""
        folding = self.folding
        wanted, fold = (folding.due, folding.fold_due) if if_due else (folding.waits, folding.settle)
        if wanted:
            with self.delta.namespace.turn(self.resource.turn):
                self._tell(fold(spark))

    def sources_changed(self, spark: SparkSession) -> bool:
        """Whether the resource reads other sources by now than its checkpoint does."""
        return self._start is not None and set(self.resource.sources(spark)) != set(self._start.positions)

    def follow_sources(self, spark: SparkSession) -> None:
        """Go on with a new checkpoint if the resource reads other sources by now. Its stream must have stopped."""
        if self.sources_changed(spark):
            with self.delta.namespace.turn(self.resource.turn):
                self._go_on(spark, self._finish(spark, folded_batches(self.delta, spark)))

    def rebuild(self, spark: SparkSession) -> None:
        """Make the state anew from the tables as they are: what comes out differently is emitted, in one commit."""
        with self.delta.namespace.turn(self.resource.turn):
            tail = self._finish(spark, folded_batches(self.delta, spark))
            self._mended(spark, tail)
            self._begin(spark, tail, again=True)

    def fill_gap(self, spark: SparkSession, error: Exception) -> bool:
        """Go on without the change feed where changes are gone from it: whether that could be done.

        Records are read from the rows of their topic. Where there are no such rows the state is made anew, if the
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
        """Start the query: until what is there now is processed, or, with an interval, until it is stopped.

        None where there is nothing to do: no topic matches a pattern, or, without an interval, nothing was committed to
        what it reads since all of it was processed.
        """
        if self._start is None:
            msg = f"{self.resource.ref} was not recovered"
            raise RuntimeError(msg)
        if self.failure is not None:  # it may have committed a batch that it did not fold
            self.failure = None
            self.recover(spark, folded_batches(self.delta, spark))
        self.settle(spark)  # what waits belongs to the session of the stream before
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
        if not unread.positions:  # what was new a run that died had read
            return None
        stream = self._streamed().source(spark, unread)
        remove_unfinished(self._checkpoint)
        writer = stream.writeStream.foreachBatch(self._process)
        writer = writer.option("checkpointLocation", str(self._checkpoint)).queryName(str(self.resource.ref))
        if every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every} milliseconds").start()

    def process(self, batch: DataFrame, batch_id: int) -> None:
        """One batch. Whoever dies between two of its writes finds at the next start all it needs to go on."""
        steps, spark = BatchTiming(), batch.sparkSession
        with self._turn(spark):
            if self.resource.timed:  # otherwise nobody else commits while the stream runs
                self._learn(spark)
            # A replay that finds its batch in the log computes nothing: `recover` has folded it.
            if batch_id <= self._memo.stream:
                return
            # Steps 1-4: touched, pinned, recompute, difference.
            decision = self._decide(batch)
            plan_for(spark, few=decision.effects.few)
            self._commit(spark, decision, batch_id, steps)

    def tick(self, spark: SparkSession, *, ending: bool) -> int:
        """A batch for what the clock has made due, outside the stream; the number of rows it took up."""
        steps = BatchTiming()
        with self._turn(spark):
            self._learn(spark)
            decision = self.resource.due(spark, self._memo.state, ending=ending)
            if decision is None:
                return 0
            self._commit(spark, decision, self._memo.stream, steps)
            return decision.rows_in

    def account_of(self, error: Exception) -> Exception:
        """What stopped the query, as clear as can be told."""
        error = self.failure or error
        reason = why_the_feed_ends(error)
        return error if reason is None else self._cannot_go_on(reason)

    def _cannot_go_on(self, reason: str) -> KasprError:
        """The error that says why, and how the resource gets on all the same: by a rebuild, or from its beginning."""
        ref = self.resource.ref
        if self.resource.definition:
            return RebuildNeededError(str(ref), reason)
        return SetupError(
            f"{ref} cannot go on: {reason}. Delete it (kaspr-delta delete {ref.kind} {ref.name} --purge) and apply it"
            " again: it begins where its `start` says"
        )

    @property
    def _tables_read(self) -> Mapping[str, str | None]:
        """By source the Delta table that it is."""
        return {} if self._start is None else {one: self._streamed().table_of(one) for one in self._start.positions}

    def _has_read_all(self, spark: SparkSession) -> bool:
        """Whether what the tables have by now was read: by a stream of this run, or, as its checkpoint tells, before.

        Only Spark's checkpoint can tell: a batch that changes nothing leaves no trace in the log, and a large commit
        comes in several batches.
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
        """By source the id of its table, where each stream has a checkpoint of its own; empty where one goes on."""
        if self.delta.namespace.streams_go_on or not isinstance(self.resource, StreamedResource):
            return {}
        tables = {source: self.resource.table_of(source) for source in self.resource.sources(spark)}
        if None in tables.values():  # only the stream knows how far it has read
            return {}
        return {source: str(self.delta.table_id(spark, str(table))) for source, table in tables.items()}

    def _news(self, start: Start) -> dict[str, int]:
        """The sources to whose tables something was committed, with their positions."""
        newest = self._streamed().upto(self._running)
        return {source: position for source, position in start.positions.items() if position < newest[source]}

    def _unread(self, spark: SparkSession, start: Start) -> Start:
        """What the next stream reads: all sources, or those with news where it has a checkpoint of its own.

        A stream whose run died is not gone on with there, but what it did is in the log.
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
        """Begin a new stream where the one before has come to."""
        before, this = self._checkpoint, self._last.next
        start, memo = replace(start, positions=positions), Memo(state=self._memo.state)
        self.log.begin(Rows.none(spark), this, memo, start)
        self._start, self._begun, self._last, self._memo = start, this, this, memo
        shutil.rmtree(before, ignore_errors=True)  # nobody needs it, and a kill before this leaves no more than that
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
        """Go on from what the log says, where another process commits to it too."""
        if self._shipped:
            tail = self._finish(spark, folded_batches(self.delta, spark))
            self._last, self._memo = tail.last, tail.memo

    def _decide(self, batch: DataFrame) -> Decision:
        resource, state = self._streamed(), self._memo.state
        if isinstance(resource, FoldsTogether):
            return resource.decide(batch, state, self.folding.states)
        return resource.decide(batch, state)

    def _commit(self, spark: SparkSession, decision: Decision, stream: int, steps: BatchTiming) -> None:
        if decision.effects.empty and decision.state == self._memo.state:
            return
        memo = Memo(stream, decision.rows_in, decision.counts, decision.state)
        steps.done("decide")
        # Step 5: commit.
        if decision.direct is not None and self._append_directly(spark, decision.direct, memo, steps):
            return
        this = self._last.next
        committed = Committed(this, self.log.append(decision.effects, this, memo), memo, steps)
        steps.done("commit")
        # Step 6: fold, now or later. Who decides in two processes has to find all in the tables.
        self._tell(self.folding.take(spark, committed, may_wait=not self._shipped))
        self._last, self._memo = this, memo

    def _append_directly(self, spark: SparkSession, direct: DirectAppend, memo: Memo, steps: BatchTiming) -> bool:
        """Commit a batch by the append to its topic. False where that failed, most likely by an event."""
        announced = direct.announcement(self.delta, spark)
        memo = replace(memo, direct=announced)
        this = self._last = self._last.next
        self.log.append(Rows.none(spark), this, memo)
        try:
            direct.commit(self.delta, this)
        except Exception:  # noqa: BLE001  whatever it was: through the log it is a dead letter, or fails once more
            if appended(self.delta, spark, announced, this) is None:
                return False
        steps.done("commit")
        self._tell(self.folding.fold(spark, [Committed(this, Rows.none(spark), memo, steps)]))
        self._memo = memo
        return True

    def _go_on(self, spark: SparkSession, tail: LogTail) -> None:
        """Go on with the newest checkpoint, if there is one and it reads what the resource reads."""
        if tail.start is None or set(self.resource.sources(spark)) != set(tail.start.positions):
            self._begin(spark, tail)
        else:
            # Earlier versions went on with a stream everywhere: there such a one counts as one that died.
            start = tail.start if tail.start.tables else replace(tail.start, tables=self._table_ids(spark))
            self._start, self._begun, self._last, self._memo = start, tail.begun, tail.last, tail.memo
        self._processed = {}

    def _begin(self, spark: SparkSession, tail: LogTail, *, again: bool = False) -> None:
        """Begin a new checkpoint: the same steps as in a batch, over everything.

        What is made ``again`` is folded also where nothing differs: dead letters may have to go.
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
        """Begin a new checkpoint with a decision, at the positions after it."""
        (decision, positions), first = begun, BatchId(new_checkpoint(tail.newest))
        start = Start(self.resource.definition, positions, tables=self._table_ids(spark))
        steps.done("decide")
        memo = Memo(-1, decision.rows_in, decision.counts, decision.state)
        logged = self.log.begin(decision.effects, first, memo, start)
        steps.done("commit")
        if again or not decision.effects.empty:
            self._tell(self.folding.fold(spark, [Committed(first, logged, memo, steps)]))
        self._start, self._begun, self._last, self._memo = start, first, first, memo

    def _finish(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> LogTail:
        """Fold what is committed but not folded."""
        self.folding.resume(spark, folded)
        tail = self.log.tail(spark, folded.get(str(self.resource.ref), {}))
        # Together: a fold of them may have died half-way, and an older batch must not undo what a newer one did.
        unfolded = [Committed(batch, self.log.batch(spark, batch), memo) for batch, memo in tail.unfolded]
        if unfolded:
            self._tell(self.folding.fold(spark, unfolded))
        return tail

    def _mended(self, spark: SparkSession, tail: LogTail) -> bool:
        """Whether the state is of a format whose keys might not find each other; they do now, but what did not matters.

        The state is begun anew then, as in a rebuild: only what comes out differently is emitted.
        """
        if tail.start is None or tail.start.format != BROKEN_BASE64:
            return False
        return put_on_one_line(self.delta, spark, self.resource.base64_columns)

    def _tell(self, reports: Iterable[BatchReport]) -> None:
        for report in reports:
            if self.listener is not None:
                self.listener(report)

    def _check(self, start: Start) -> None:
        """Raise RebuildNeededError when the state was made by another definition, SetupError for another format."""
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
        except BaseException as error:  # a panic of delta-rs: nobody above would take it for a failure
            self.failure = RuntimeError(f"{type(error).__name__}: {error}")
            raise self.failure from error


def side_by_side(actions: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run independent Spark actions at the same time; the first failure is raised once all have ended."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return [done.result() for done in [pool.submit(action) for action in actions]]


def checkpoints_of(delta: Tables, ref: ResourceRef) -> Path:
    """The folder of a resource's checkpoints, of those that a rebuild replaced too."""
    return delta.namespace.checkpoints / f"{ref.kind}-{ref.name}"
