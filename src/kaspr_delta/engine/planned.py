"""What every resource of a plan is made of, and how most of them answer the questions of the common batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kaspr_delta.engine.resource import Decision
from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import ResourceRef
from kaspr_delta.storage.delta import Delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
class Planned(Generic[PlanT]):
    """A resource of an application: its own plan and that of the whole. By default it goes by its records alone."""

    delta: Delta
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
        """How many seconds a function may take for one event or row."""
        return self.application.event_timeout / 1_000

    @property
    def base64_columns(self) -> Mapping[str, Collection[str]]:
        return {}

    def due(self, spark: SparkSession, state: Mapping[str, Any], *, ending: bool) -> Decision | None:
        return None
