"""The protocol of resources: the steps that each kind adds to the common batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeGuard

from kaspr_delta.engine.batch.checkpoint import BatchId, Start
from kaspr_delta.engine.batch.topic_commit import DirectAppend
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.sequence import end_of
from kaspr_delta.plan.definition.resources import ResourceRef

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

LoggedBatch: TypeAlias = tuple[BatchId, Rows]
"""A batch of the log, with its rows as the log has them."""


class SourceTable(NamedTuple):
    """The table behind a source of a stream; None for an endpoint, in which only the stream can find news.

    A position of the source is a version of the table or, ``by_offset``, an offset of a record (``rows.sequence``).
    """

    table: str | None
    by_offset: bool = False

    def upto(self, version: int) -> int:
        """The position at which the table is read up to and with a version."""
        return end_of(version) if self.by_offset else version


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a batch: the rows to append to the log, and the number of its input rows.

    ``state`` is plain data, handed to the next batch unchanged. ``counts`` are for the metrics. ``direct`` has the same
    effects as records of one topic, if the append to that topic may be the commit.
    """

    effects: Rows
    rows_in: int
    state: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    direct: DirectAppend | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """The numbers of a fold: records and table writes, dead letters, and left rows that had been stale.

    ``counts`` are for the metrics.
    """

    rows_out: int
    dead_letters: int
    stale: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


class Resource(Protocol):
    """One kind of resource's steps of the common batch. Must be picklable: Spark Connect ships it to its server."""

    @property
    def ref(self) -> ResourceRef:
        """The resource's name."""
        ...

    @property
    def log_table(self) -> str:
        """The Delta table of its log."""
        ...

    @property
    def table_group(self) -> str:
        """Resources that share tables: those of one group exclude each other batch by batch."""
        ...

    @property
    def timed(self) -> bool:
        """Whether the clock alone may make a batch due."""
        ...

    @property
    def definition(self) -> Mapping[str, str]:
        """The definition of its state, by names that people use. A change makes a rebuild due. Empty: no state."""
        ...

    @property
    def fills_gaps(self) -> bool:
        """Whether its state is rebuilt automatically when unread changes are gone."""
        ...

    @property
    def base64_columns(self) -> Mapping[str, Collection[str]]:
        """The columns of its tables that may hold bytes as base64 text, by table (see ``base64_state``)."""
        ...

    def sources(self, spark: SparkSession) -> Mapping[str, SourceTable]:
        """The sources that it reads now. When they change, a new checkpoint continues where the old one stopped."""
        ...

    def begin(
        self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool
    ) -> tuple[Decision, Mapping[str, int]]:
        """Begin a new checkpoint: return its first decision, and the position in each source.

        State made from tables is decided over all existing rows; over streams the decision is empty.

        ``state`` is the one that the last batch of the checkpoint before left.
        """
        ...

    def catch_up(self, spark: SparkSession, state: Mapping[str, Any]) -> tuple[Decision, Mapping[str, int]] | None:
        """Return a decision over all unread records, and the positions after them, without the change feed.

        None if only the change feed has the unread changes.
        """
        ...

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        """Steps 1 to 4 for work that the clock has made due, if any. ``ending``: this run waits for nothing more."""
        ...

    def fold(self, batches: Sequence[LoggedBatch], *, states: bool = True) -> Sequence[Folded]:
        """Step 6: fold successive batches of the log into the resource's tables. May be repeated.

        Only a resource that ``FoldsTogether`` is given several. Unless ``states``, their states are deferred.
        """
        ...


class StreamedResource(Resource, Protocol):
    """A resource that reads a stream."""

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        """The stream of changes and records of the sources in ``start``, from their positions on."""
        ...

    def decide(self, batch: DataFrame, state: Mapping[str, Any]) -> Decision:
        """Steps 1 to 4: touched, pinned, recompute, difference. Reads only."""
        ...

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        """By source, the position after which a stream may continue, according to the last batch's state.

        Changes of sources without a position may be read again.
        """
        ...


class FoldsTogether(StreamedResource, Protocol):
    """A resource that can decide while earlier batches are unfolded, so that several are folded at once."""

    def decide(self, batch: DataFrame, state: Mapping[str, Any], unmerged: Sequence[pa.Table] = ()) -> Decision:
        """Steps 1 to 4, as above. ``unmerged`` has the states of batches that are in no table yet, the oldest first."""
        ...

    def changed_state(self, rows: Rows) -> pa.Table | None:
        """The state, by ``key``, that later batches need of a batch until it is folded; None: too much to hold."""
        ...

    def fold_states(self, rows: Rows, *, several: bool) -> Mapping[str, int]:
        """Fold the states of batches, and return counters of the cost.

        The rows are either as ``changed_state`` returns them, each key once, or those of the log, of ``several``
        successive batches.
        """
        ...


def folds_together(resource: Resource) -> TypeGuard[FoldsTogether]:
    """Whether a resource is a FoldsTogether, by its class: Python would evaluate its properties to learn that."""
    return hasattr(type(resource), "changed_state")


def is_streamed(resource: Resource) -> TypeGuard[StreamedResource]:
    """Whether a resource reads a stream."""
    return hasattr(type(resource), "source")
