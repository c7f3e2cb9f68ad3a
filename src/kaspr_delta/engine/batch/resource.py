"""The base class of resources: the steps that each kind adds to the common batch, and default answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import narwhals as nw
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.batch.checkpoint import FIRST, BatchId, Start
from kaspr_delta.engine.batch.counters import work
from kaspr_delta.engine.batch.dead_letters import Renewed, fold_dead_letters, renew_dead_letters
from kaspr_delta.engine.batch.decision import Decision, Folded, LoggedBatch
from kaspr_delta.engine.batch.sources import SourceTable, sources_of
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.local_rows import read_back, union_all
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.state_definitions import definition_of
from kaspr_delta.storage.layout import RECORDS
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.tables import Merged, Tables

Begun: TypeAlias = tuple[Decision, Mapping[str, int]]
"""The first decision of a checkpoint, and the position in each source from which its stream continues."""

Fold: TypeAlias = Callable[[], Merged | None]
"""Brings a table or a topic up to a batch; may return the cost."""

Found: TypeAlias = Collection[tuple[Any, ...]]
"""The combinations of values in the columns ``Resource.counted`` that occur in rows of the log."""


class LoggedPlan(Protocol):
    """The plan of a resource with a log."""

    @property
    def ref(self) -> ResourceRef:
        """The resource's name."""

    @property
    def log(self) -> str:
        """The Delta table of its log."""


PlanT = TypeVar("PlanT", bound=LoggedPlan)


@dataclass(frozen=True, slots=True)
class Resource(Generic[PlanT]):
    """A resource, with its own plan and that of its application. By default only records drive it, no clock.

    Must be picklable: Spark Connect ships it to its server.
    """

    delta: Tables
    plan: PlanT
    application: Plan

    counted: ClassVar[tuple[str, ...]] = ("kind", "failed")
    """The columns by which rows of the log are counted; the first one is ``kind``. A third one marks stale rows."""

    failed: ClassVar[nw.Expr] = nw.col("failed")
    """The condition for failed rows of the log."""

    folds_together: ClassVar[bool] = False
    """Whether it can decide while earlier batches are unfolded, so that several are folded at once."""

    @property
    def ref(self) -> ResourceRef:
        return self.plan.ref

    @property
    def log_table(self) -> str:
        return self.plan.log

    @property
    def table_group(self) -> str:
        """The name of the group of resources that share tables: their batches exclude each other."""
        return str(self.ref)

    @property
    def timed(self) -> bool:
        """Whether the clock alone may make a batch due."""
        return False

    @property
    def definition(self) -> Mapping[str, str]:
        """The definition of its state: see ``definition_of``."""
        return definition_of(self.application, self.ref)

    @property
    def event_timeout(self) -> float:
        """The most seconds that a function may take for one event or row."""
        return self.application.event_timeout / 1_000

    @property
    def renewed(self) -> Renewed:
        """The dead letters that a new checkpoint makes anew. By default none: records are not read again."""
        return Renewed()

    @property
    def fills_gaps(self) -> bool:
        """Whether its state is rebuilt automatically when unread changes are gone."""
        return self.renewed.every and self.application.on_gap == "rebuild"

    @property
    def rebuilds_itself(self) -> bool:
        """Whether its state is rebuilt automatically when its definition has changed."""
        return self.application.reaction(self.ref) == "rebuild"

    def sources(self, spark: SparkSession) -> Mapping[str, SourceTable]:
        """The sources that it reads now. When they change, a new checkpoint continues where the old one stopped."""
        return sources_of(self.application, self.ref)

    def source(self, spark: SparkSession, start: Start) -> DataFrame:
        """The stream of changes and records of the sources in ``start``, from their positions on."""
        raise NotImplementedError

    def reached(self, state: Mapping[str, Any]) -> Mapping[str, int]:
        """By source, the position after which a stream may continue, according to the last batch's state.

        Changes of sources without a position may be read again.
        """
        return {}

    def begin(self, spark: SparkSession, state: Mapping[str, Any], *, log_is_new: bool) -> Begun:
        """Begin a new checkpoint: return its first decision, and the position in each source.

        State made from tables is decided over all existing rows; over streams the decision is empty.

        ``state`` is the one that the last batch of the checkpoint before left.
        """
        raise NotImplementedError

    def catch_up(self, spark: SparkSession, state: Mapping[str, Any]) -> Begun | None:
        """Return a decision over all unread records, and the positions after them, without the change feed.

        None if only the change feed has the unread changes.
        """
        return None

    def arrived(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> Rows | None:
        """The rows of ``source`` after positions ``after``, up to and with ``upto``, by source, without Spark.

        None, the default, if only Spark reads them, or if they are many.
        """
        return None

    def decide(self, changes: Rows, state: Mapping[str, Any]) -> Decision:
        """Steps 1 to 4: touched, pinned, recompute, difference. Reads only."""
        raise NotImplementedError

    def decide_early(self, changes: Rows, state: Mapping[str, Any], unmerged: Sequence[pa.Table]) -> Decision:
        """As ``decide``, before earlier batches are folded: ``unmerged`` has their states, the oldest first."""
        return self.decide(changes, state)

    def is_due(self, state: Mapping[str, Any], *, ending: bool) -> bool:
        """Whether the clock has made work due. ``ending``: this run waits for nothing more."""
        return False

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        """Steps 1 to 4 for work that ``is_due``; None if there is none."""
        return None

    def fold(self, batches: Sequence[LoggedBatch], *, with_state: bool = True) -> Sequence[Folded]:
        """Step 6: fold successive batches of the log into the resource's tables. May be repeated.

        Only a resource that ``folds_together`` is given several. ``state_folds`` are left out unless ``with_state``.
        The cost is reported with the last batch.
        """
        parts = [rows for _, rows in batches]
        counts = [rows.count_by(*self.counted) for rows in parts]
        folded, found = [self.numbers(one) for one in counts], frozenset(chain.from_iterable(counts))
        waited = len(batches) > 1 or not with_state
        most = self.delta.limits.logged
        # Rows of large batches that waited come to the driver, if they fit: delta-rs merges them. Those of a batch that
        # is folded at once are left to Spark.
        if waited and sum(sum(one.values()) for one in counts) <= most.rows:
            parts = [read_back(rows, most) for rows in parts]
        rows = union_all(parts)
        folds = [*self.folds(rows, found, [batch for batch, _ in batches])] if found else []
        if found and with_state:
            folds += self.state_folds(rows, several=len(batches) > 1)
        folds.append(partial(self._fold_letters, batches, folded))
        cost = cost_of(folds)
        self.afterwards(rows, found)
        return [*folded[:-1], replace(folded[-1], counts={**folded[-1].counts, **cost})]

    def changed_state(self, rows: Rows) -> pa.Table | None:
        """The state, by ``key``, that later batches need of a batch until it is folded; None: too much to hold."""
        return None

    def numbers(self, counts: Mapping[tuple[Any, ...], int]) -> Folded:
        """The numbers of a batch, from its counted rows. By default those of a join, whose log is a channel."""
        return Folded(
            sum(count for name, count in counts.items() if name[0] in RECORDS),
            sum(count for name, count in counts.items() if name[1]),
            sum(count for name, count in counts.items() if any(name[2:])),
        )

    def folds(self, rows: Rows, found: Found, batches: Sequence[BatchId]) -> Sequence[Fold]:
        """The folds of rows of successive batches, without the dead letters. They may run at the same time."""
        raise NotImplementedError

    def state_folds(self, rows: Rows, *, several: bool) -> Sequence[Fold]:
        """The folds of a state that may be deferred, of one batch or of ``several``, if it ``folds_together``.

        The rows are those of the log, or as ``changed_state`` returns them, each key once.
        """
        return ()

    def afterwards(self, rows: Rows, found: Found) -> None:
        """The part of a fold that waits for all others."""

    @property
    def result(self) -> KeyedTable | None:
        """The table that shows its state. None without one, and over streams: then a rebuild cannot be compared."""
        return None

    def stored_result(self, spark: SparkSession) -> KeyedTable | None:
        """``result`` with the columns that it has: until a rebuild it may have those of an earlier definition."""
        return self.result

    @property
    def expects_other_columns(self) -> bool:
        """Whether ``has_other_columns`` when the application was opened: else each run would look."""
        return False

    def has_other_columns(self, spark: SparkSession) -> bool:
        """Whether ``result`` has columns that do not fit the definition, and that only a rebuild replaces."""
        return False

    def replace_result(self, spark: SparkSession) -> None:
        """Make ``result`` anew, without rows, if it has other columns. May be repeated.

        Readers wait from then on until ``end_replacement``.
        """

    def end_replacement(self) -> None:
        """Let readers go on: the result has its rows again."""

    def result_rows(self, effects: Rows) -> Rows:
        """The rows that the effects of one batch write to ``result``, as it stores them, with a column ``keep``."""
        raise NotImplementedError

    def letters(self, rows: Rows) -> Rows:
        """The failed rows of a batch: columns source, key, problem, timestamp, batch, and value unless that has it."""
        return rows.filter(self.failed).select("source", "key", "problem", "timestamp", "batch")

    def _fold_letters(self, batches: Sequence[LoggedBatch], folded: Sequence[Folded]) -> None:
        """Append the dead letters of batches, one after another.

        Delta skips an append whose transaction is older than the last one: a batch must not overtake an earlier one.
        """
        ref = str(self.ref)
        for (batch, rows), done in zip(batches, folded, strict=True):
            if batch.number == FIRST and self.renewed != Renewed():
                letters = self.letters(rows)
                renew_dead_letters(self.delta, letters, ref, batch, self.renewed, done.dead_letters)
            elif done.dead_letters:
                fold_dead_letters(self.delta, self.letters(rows), ref, batch)


def cost_of(folds: Sequence[Fold]) -> dict[str, int]:
    """Do folds at the same time, and return their cost as counters."""
    merged = [done for done in side_by_side(folds) if done is not None]
    if not merged:
        return {}
    return {work(one.name): sum(getattr(done, one.name) for done in merged) for one in fields(Merged)}


def kinds_of(found: Found) -> frozenset[str]:
    """The kinds of rows of the log."""
    return frozenset(kind for kind, *_ in found)
