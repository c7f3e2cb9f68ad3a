"""The base class of the resources of a plan, with the answers that most of them give to the common batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kaspr_delta.engine.batch.checkpoint import FIRST, BatchId
from kaspr_delta.engine.batch.dead_letters import Renewed, fold_dead_letters, renew_dead_letters
from kaspr_delta.engine.batch.resource import Decision
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LoggedPlan(Protocol):
    """The plan of a resource with a log."""

    @property
    def ref(self) -> ResourceRef:
        """The resource's name."""
        ...

    @property
    def log(self) -> str:
        """The Delta table of its log."""
        ...


PlanT = TypeVar("PlanT", bound=LoggedPlan)


@dataclass(frozen=True, slots=True)
class PlannedResource(Generic[PlanT]):
    """A resource of an application, with both plans. By default only records drive it, no clock."""

    delta: Tables
    plan: PlanT
    application: Plan

    @property
    def ref(self) -> ResourceRef:
        return self.plan.ref

    @property
    def log_table(self) -> str:
        return self.plan.log

    @property
    def turn(self) -> str:
        return str(self.ref)

    @property
    def timed(self) -> bool:
        return False

    @property
    def event_timeout(self) -> float:
        """The most seconds that a function may take for one event or row."""
        return self.application.event_timeout / 1_000

    @property
    def renewed(self) -> Renewed:
        """The dead letters that a new checkpoint makes anew. By default none: records are not read again."""
        return Renewed()

    def renews_letters(self, batch: BatchId) -> bool:
        """Whether the dead letters of a batch replace earlier ones."""
        return batch.number == FIRST and self.renewed != Renewed()

    def letters(self, rows: DataFrame) -> DataFrame:
        """The failed rows of a batch as dead letters: columns source, key, value, problem, timestamp, batch."""
        raise NotImplementedError

    def letter_folds(self, batch: BatchId, rows: Rows, failed: int) -> Sequence[Callable[[], None]]:
        """The folds of the dead letters of a batch; ``failed`` is the number of its rows that failed."""
        if self.renews_letters(batch):
            letters = self.letters(rows.df)
            return [partial(renew_dead_letters, self.delta, letters, str(self.ref), batch, self.renewed, failed)]
        if not failed:
            return []
        return [partial(fold_dead_letters, self.delta, self.letters(rows.df), str(self.ref), batch)]

    @property
    def fills_gaps(self) -> bool:
        return self.renewed.every and self.application.on_gap == "rebuild"

    @property
    def base64_columns(self) -> Mapping[str, Collection[str]]:
        return {}

    def catch_up(self, spark: SparkSession, state: Mapping[str, Any]) -> tuple[Decision, Mapping[str, int]] | None:
        return None

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        return None
