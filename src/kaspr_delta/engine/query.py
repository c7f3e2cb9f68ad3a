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

from kaspr_delta.engine.log import BatchId, Log
from kaspr_delta.engine.progress import BatchReport, Progress, folded_batches
from kaspr_delta.engine.rows import Rows
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
    """What a fold brought over: records and table writes, and dead letters."""

    rows_out: int
    dead_letters: int


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

    def source(self, spark: SparkSession) -> DataFrame:
        """The stream of changes and records it reads."""
        ...

    def decide(self, batch: DataFrame, batch_id: int) -> Decision:
        """Steps 1 to 4: touched, pinned, recompute, difference. Reads only."""
        ...

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        """Step 6: bring what the resource keeps up to one batch of its log. May be repeated."""
        ...


@dataclass
class Query:
    """A resource with its checkpoint and log."""

    delta: Delta
    resource: Resource
    checkpoint: Path
    # Those that share this resource's tables: what one of them had committed is folded before this one reads.
    companions: tuple[Query, ...] = ()
    log: Log = field(init=False)
    progress: Progress = field(init=False)
    # What stopped the query, where it runs in this process: clearer than Spark's account of it.
    failure: Exception | None = field(default=None, init=False)
    _committed: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.delta, self.resource.log_table)
        self.progress = Progress(self.delta, str(self.resource.ref))

    @classmethod
    def of(cls, delta: Delta, resource: Resource) -> Query:
        """The query of a resource, at its existing checkpoint or at a new one."""
        home = delta.namespace.checkpoints / f"{resource.ref.kind}-{resource.ref.name}"
        existing = sorted(home.iterdir()) if home.is_dir() else []
        return cls(delta, resource, existing[-1] if existing else home / _new_checkpoint_name())

    def recover(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        """Before the first batch: finish what a killed run had committed but not folded (see ``folded_batches``)."""
        with self.delta.namespace.turn(self.resource.turn):
            # Companions may fold for this one, in another process too: what is folded counts from when it is our turn.
            self._recover(spark, folded_batches(self.delta, spark) if self.companions else folded)

    def start(self, spark: SparkSession, every: str | None) -> StreamingQuery:
        """Start the query: until what is there now is processed, or, with an interval, until it is stopped."""
        writer = self.resource.source(spark).writeStream.foreachBatch(self._process)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).queryName(str(self.resource.ref))
        writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
        return writer.start()

    def process(self, batch: DataFrame, batch_id: int) -> None:
        """One batch. Whoever dies between two of its writes finds at the next start all it needs to go on."""
        started = time.monotonic()
        # A replay that finds its batch in the log computes nothing: `recover` has folded it.
        if batch_id <= self._committed:
            return
        with self.delta.namespace.turn(self.resource.turn):
            if self.companions:
                folded = folded_batches(self.delta, batch.sparkSession)
                for companion in self.companions:
                    companion._recover(batch.sparkSession, folded)  # noqa: SLF001  under the turn that all share
            # Steps 1-4: touched, pinned, recompute, difference.
            decision = self.resource.decide(batch, batch_id)
            if decision.effects.empty:
                return
            # Step 5: commit.
            this = BatchId(self.checkpoint.name, batch_id)
            logged = self.log.append(decision.effects, this)
            # Step 6: fold.
            self._fold(batch.sparkSession, this, logged, decision.rows_in, started)
            self._committed = batch_id

    def _recover(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> None:
        already = folded.get(str(self.resource.ref), {})
        unfolded = self.log.unfolded(spark, already)
        for batch in unfolded:
            self._fold(spark, batch, self.log.batch(spark, batch), rows_in=0, started=time.monotonic())
        mine = [batch.number for batch in unfolded if batch.checkpoint == self.checkpoint.name]
        self._committed = max([*mine, already.get(self.checkpoint.name, -1)])

    def _fold(self, spark: SparkSession, batch: BatchId, rows: Rows, rows_in: int, started: float) -> None:
        folded = self.resource.fold(spark, batch, rows)
        report = BatchReport(rows_in, folded.rows_out, folded.dead_letters, time.monotonic() - started)
        self.progress.record(spark, batch, report)

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


def _new_checkpoint_name() -> str:
    """Sorts by time, so that the newest checkpoint is the last; never used twice."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"
