"""The batch that every stateful resource runs, and the streaming query around it.

*The feed names the keys, pinned snapshots give the values, one append commits, everything else is a fold.*
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from kaspr_delta.engine.log import STATE_FORMAT, BatchId, Log, LogTail, Start
from kaspr_delta.engine.progress import BatchReport, Progress, folded_batches
from kaspr_delta.engine.rows import Rows
from kaspr_delta.engine.source_errors import why_the_feed_ends
from kaspr_delta.errors import RebuildNeededError, SetupError
from kaspr_delta.plan.definition import ResourceRef
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Result = TypeVar("Result")
# Statements are planned on the driver: more at once would only wait for each other.
_SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True)
class Decision:
    """What a batch decided: the rows to append to the log, and how many rows it was given."""

    effects: Rows
    rows_in: int


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold brought over: records and table writes, dead letters, and left rows that had been stale."""

    rows_out: int
    dead_letters: int
    stale: int = 0


class Resource(Protocol):
    """What a kind of resource adds to the common batch. Must be picklable: Spark Connect ships it to its server."""

    @property
    def ref(self) -> ResourceRef:
        """The resource's name."""
        ...

    @property
    def log_table(self) -> str:
        """The Delta table of its log."""
        ...

    @property
    def turn(self) -> str:
        """Resources with the same turn exclude each other batch by batch."""
        ...

    @property
    def definition(self) -> Mapping[str, str]:
        """What its state depends on, by what people call it; where that changes, a rebuild is due. Empty: no state."""
        ...

    def begin(self, spark: SparkSession, *, log_is_new: bool) -> tuple[Decision, Mapping[str, int]]:
        """What a new checkpoint begins with: a decision over all that is there, and the source versions it has seen."""
        ...

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        """The stream of changes and records it reads, from where the checkpoint began."""
        ...

    def decide(self, batch: DataFrame) -> Decision:
        """Steps 1 to 4: touched, pinned, recompute, difference. Reads only."""
        ...

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        """Step 6: bring what the resource keeps up to one batch of its log. May be repeated."""
        ...


@dataclass
class Query:
    """A resource with its log and, once it has recovered, its checkpoint."""

    delta: Delta
    resource: Resource
    # Those that share this resource's tables: what one of them had committed is folded before this one reads.
    companions: tuple[Query, ...] = ()
    log: Log = field(init=False)
    progress: Progress = field(init=False)
    # What stopped the query, where it runs in this process.
    failure: Exception | None = field(default=None, init=False)
    _checkpoint: str = field(default="", init=False)
    _start: Start | None = field(default=None, init=False)
    _committed: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.delta, self.resource.log_table)
        self.progress = Progress(self.delta, str(self.resource.ref))

    def recover(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Before the first batch: finish what a killed run had committed but not folded (see ``folded_batches``).

        A resource without a state makes its first. Raises RebuildNeededError when the state is that of another
        definition, and SetupError when it has another format.
        """
        with self.delta.namespace.turn(self.resource.turn):
            # Companions may fold for this one, in another process too: what is folded counts from when it is our turn.
            tail = self._finish(spark, folded_batches(self.delta, spark) if self.companions else folded)
            if tail.start is None:
                self._begin(spark, tail)
                return
            self._check(tail.start)
            self._checkpoint, self._start = tail.checkpoint, tail.start

    def rebuild(self, spark: SparkSession) -> None:
        """Make the state anew from the tables as they are: what comes out differently is emitted, in one commit."""
        with self.delta.namespace.turn(self.resource.turn):
            self._begin(spark, self._finish(spark, folded_batches(self.delta, spark)))

    def start(self, spark: SparkSession, every: str | None) -> StreamingQuery:
        """Start the query: until what is there now is processed, or, with an interval, until it is stopped."""
        if self._start is None:
            msg = f"{self.resource.ref} was not recovered"
            raise RuntimeError(msg)
        self.failure = None
        location = checkpoints_of(self.delta, self.resource.ref) / self._checkpoint
        writer = self.resource.source(spark, self._start).writeStream.foreachBatch(self._process)
        writer = writer.option("checkpointLocation", str(location)).queryName(str(self.resource.ref))
        writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
        return writer.start()

    def process(self, batch: DataFrame, batch_id: int) -> None:
        """One batch. Whoever dies between two of its writes finds at the next start all it needs to go on."""
        started = time.monotonic()
        # A replay that finds its batch in the log computes nothing: `recover` has folded it.
        if batch_id <= self._committed:
            return
        spark = batch.sparkSession
        with self.delta.namespace.turn(self.resource.turn):
            if self.companions:
                folded = folded_batches(self.delta, spark)
                for companion in self.companions:
                    companion._finish(spark, folded)  # noqa: SLF001  under the turn that all share
            # Steps 1-4: touched, pinned, recompute, difference.
            decision = self.resource.decide(batch)
            if decision.effects.empty:
                return
            # Step 5: commit.
            this = BatchId(self._checkpoint, batch_id)
            logged = self.log.append(decision.effects, this)
            # Step 6: fold.
            self._fold(spark, this, logged, decision.rows_in, started)
            self._committed = batch_id

    def account_of(self, error: Exception) -> Exception:
        """What stopped the query, as clear as can be told."""
        error = self.failure or error
        reason = why_the_feed_ends(error) if self.resource.definition else None
        return error if reason is None else RebuildNeededError(str(self.resource.ref), reason)

    def _begin(self, spark: SparkSession, tail: LogTail) -> None:
        """Begin a new checkpoint: the same steps as in a batch, over everything."""
        started = time.monotonic()
        first = BatchId(_new_checkpoint_name())
        decision, versions = self.resource.begin(spark, log_is_new=tail.start is None)
        start = Start(self.resource.definition, versions)
        logged = self.log.begin(decision.effects, first, start)
        if not decision.effects.empty:
            self._fold(spark, first, logged, decision.rows_in, started)
        self._checkpoint, self._start, self._committed = first.checkpoint, start, first.number

    def _finish(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> LogTail:
        """Fold what is committed but not folded."""
        already = folded.get(str(self.resource.ref), {})
        tail = self.log.tail(spark, already)
        for batch in tail.unfolded:
            self._fold(spark, batch, self.log.batch(spark, batch), rows_in=0, started=time.monotonic())
        mine = [batch.number for batch in tail.unfolded if batch.checkpoint == tail.checkpoint]
        self._committed = max([*mine, already.get(tail.checkpoint, -1)])
        return tail

    def _fold(self, spark: SparkSession, batch: BatchId, rows: Rows, rows_in: int, started: float) -> None:
        folded = self.resource.fold(spark, batch, rows)
        counts = (rows_in, folded.rows_out, folded.dead_letters, folded.stale, self.delta.conflicts.taken())
        self.progress.record(spark, batch, BatchReport(*counts, time.monotonic() - started))

    def _check(self, start: Start) -> None:
        """Raise RebuildNeededError when the state was made by another definition, SetupError for another format."""
        ref = self.resource.ref
        if start.format != STATE_FORMAT:
            msg = (
                f"the state of {ref} has format {start.format}, and this version of kaspr-delta keeps format"
                f" {STATE_FORMAT}: use the version that wrote it, or a new warehouse"
            )
            raise SetupError(msg)
        now = self.resource.definition
        changed = [name for name in now if start.definition.get(name) != now[name]]
        if changed:
            verb = "has" if len(changed) == 1 else "have"
            raise RebuildNeededError(str(ref), f"its {' and '.join(changed)} {verb} changed since its state was made")

    def _process(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.process(batch, batch_id)
        except Exception as error:
            self.failure = error
            raise


def side_by_side(actions: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run independent Spark actions at the same time; the first failure is raised once all have ended."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return [done.result() for done in [pool.submit(action) for action in actions]]


def checkpoints_of(delta: Delta, ref: ResourceRef) -> Path:
    """The folder of a resource's checkpoints, of those that a rebuild replaced too."""
    return delta.namespace.checkpoints / f"{ref.kind}-{ref.name}"


def _new_checkpoint_name() -> str:
    """Sorts by time, so that the newest checkpoint is the last; never used twice."""
    now = time.time_ns()
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now // 10**9))}.{now % 10**9:09d}-{uuid.uuid4().hex[:8]}"
