"""What a kind of resource adds to the batch that all have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kaspr_delta.engine.batch.checkpoint import BatchId, Start
from kaspr_delta.engine.batch.topic_commit import DirectAppend
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.resources import ResourceRef

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Decision:
    """What a batch decided: the rows to append to the log, and how many rows it was given.

    ``state`` is what the next batch has to know: plain data, handed to it as it is. ``counts`` are for the metrics.
    ``direct`` are the same effects as records of one topic, where their append to it may be the commit.
    """

    effects: Rows
    rows_in: int
    state: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    direct: DirectAppend | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold brought over: records and table writes, dead letters, and left rows that had been stale.

    ``counts`` are for the metrics.
    """

    rows_out: int
    dead_letters: int
    stale: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


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
    def timed(self) -> bool:
        """Whether there may be something to decide when nothing arrives."""
        ...

    @property
    def definition(self) -> Mapping[str, str]:
        """What its state depends on, by what people call it; where that changes, a rebuild is due. Empty: no state."""
        ...

    @property
    def fills_gaps(self) -> bool:
        """Whether its state is made anew by itself where changes are gone that it had not read."""
        ...

    @property
    def base64_columns(self) -> Mapping[str, Collection[str]]:
        """The columns of its tables that may hold bytes as base64 text, by table (see ``base64_state``)."""
        ...

    def sources(self, spark: SparkSession) -> Collection[str]:
        """What it reads, as of now. Where that changes, a new checkpoint goes on from where the old one stands."""
        ...

    def begin(
        self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool
    ) -> tuple[Decision, Mapping[str, int]]:
        """What a new checkpoint begins with: a decision over all that is there, and its position in each source.

        ``state`` is what the last batch of the checkpoint before left.
        """
        ...

    def catch_up(self, spark: SparkSession, state: Mapping[str, Any]) -> tuple[Decision, Mapping[str, int]] | None:
        """A decision over all that was not read, and the positions after it, without the change feed.

        None where only the change feed has what was not read.
        """
        ...

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        """Steps 1 to 4 for what the clock has made due, if anything. ``ending``: this run waits for nothing more."""
        ...

    def fold(self, spark: SparkSession, batch: BatchId, rows: Rows) -> Folded:
        """Step 6: bring what the resource keeps up to one batch of its log. May be repeated."""
        ...


@runtime_checkable
class StreamedResource(Resource, Protocol):
    """A resource that reads a stream."""

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        """The stream of changes and records that it reads: of the sources in the start, from their positions on."""
        ...

    def decide(self, batch: DataFrame, state: Mapping[str, Any]) -> Decision:
        """Steps 1 to 4: touched, pinned, recompute, difference. Reads only."""
        ...

    def upto(self, versions: Mapping[str, int]) -> Mapping[str, int]:
        """By source the position at which all of its table was read, up to and with a version."""
        ...

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        """By source the position after which a stream may go on, as the last batch left it.

        Of other sources changes may be read again.
        """
        ...

    def table_of(self, source: str) -> str | None:
        """The Delta table behind a source; None for a place elsewhere: what is new there only the stream can tell."""
        ...


@runtime_checkable
class FoldsTogether(StreamedResource, Protocol):
    """A resource that can decide while earlier batches are not folded yet, so that several are folded at once."""

    def decide(self, batch: DataFrame, state: Mapping[str, Any], tail: Sequence[pa.Table] = ()) -> Decision:
        """As for all; ``tail`` is the state that batches left which are in no table yet, the oldest first."""
        ...

    def state_of(self, rows: Rows) -> pa.Table | None:
        """What has to be known of a batch of the log while it is not folded, by ``key``; None: too much to hold."""
        ...

    def fold_together(self, batches: Sequence[tuple[BatchId, Rows]], *, states: bool = True) -> Sequence[Folded]:
        """As ``fold``, for successive batches of the log; without their ``states``, which then stay behind."""
        ...

    def fold_states(self, rows: Rows, *, several: bool) -> Mapping[str, int]:
        """Bring the state up to what batches left, and tell what that took.

        Rows are as ``state_of`` has them, each key once, or the log's own, of ``several`` successive batches.
        """
        ...
