"""What a run did, resource by resource, and how an application stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.counters import Metric
from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import ResourceRef
from kaspr_delta.storage.layout import PROGRESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.storage.delta import Delta


@dataclass(frozen=True, slots=True)
class ResourceReport:
    """What one resource did, summed over its batches: see ``engine.progress.BatchReport``."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    stale: int = 0
    conflicts: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """How a resource stands: ``state`` is ``ran``, ``new`` before its first batch, or why it waits."""

    resource: ResourceRef
    state: str
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    last_batch: datetime | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """How an application stands: its resources in the order in which they run, and all counters."""

    resources: tuple[ResourceStatus, ...]
    metrics: tuple[Metric, ...]

    @classmethod
    def of(cls, spark: SparkSession, delta: Delta, plan: Plan) -> Status:
        """The status, as the batches of all runs so far add up to."""
        from pyspark.sql import functions as F

        from kaspr_delta.engine.metrics import metrics

        batches = delta.read(spark, PROGRESS).groupBy("resource")
        sums = (F.sum(name).alias(name) for name in ("rows_in", "rows_out", "dead_letters"))
        done = batches.agg(*sums, F.max("at").alias("last_batch")).collect()
        counts = {row["resource"]: {name: row[name] for name in row.asDict() if name != "resource"} for row in done}
        return cls.summed(plan, counts, metrics(delta, spark))

    @classmethod
    def summed(cls, plan: Plan, done: Mapping[str, Mapping[str, Any]], counted: Iterable[Metric]) -> Status:
        """The status of a plan's resources, by what each has done: the numbers of a ResourceStatus."""
        reasons = dict(plan.waiting)
        resources = []
        for ref in dict.fromkeys([*plan.runs, *reasons]):
            counts = done.get(str(ref))
            state = f"waits: {reasons[ref]}" if ref in reasons else "new" if counts is None else "ran"
            resources.append(ResourceStatus(ref, state, **counts or {}))
        return cls(tuple(resources), tuple(counted))

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON has it, but for moments."""
        return {
            "resources": [
                {
                    "resource": str(one.resource),
                    "state": one.state,
                    "rowsIn": one.rows_in,
                    "rowsOut": one.rows_out,
                    "deadLetters": one.dead_letters,
                    "lastBatch": one.last_batch,
                }
                for one in self.resources
            ],
            "metrics": [{"name": one.name, "labels": dict(one.labels), "value": one.value} for one in self.metrics],
        }


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run did. ``resources`` maps ``kind/name`` to its report; resources without a batch are not in it."""

    resources: Mapping[str, ResourceReport]

    @property
    def rows_out(self) -> int:
        """Records emitted and table rows written by all resources."""
        return sum(report.rows_out for report in self.resources.values())

    @property
    def dead_letters(self) -> int:
        """Dead letters of all resources."""
        return sum(report.dead_letters for report in self.resources.values())

    @classmethod
    def since(cls, spark: SparkSession, delta: Delta, start: datetime) -> RunReport:
        """The report of all batches finished since a moment."""
        from pyspark.sql import functions as F

        names = ResourceReport.__dataclass_fields__
        batches = delta.read(spark, PROGRESS).where(F.col("at") >= F.lit(start))
        rows = batches.groupBy("resource").agg(
            F.count("*").alias("batches"),
            *(F.sum(name).alias(name) for name in names if name != "batches"),
        )
        return cls({row["resource"]: ResourceReport(**{name: row[name] for name in names}) for row in rows.collect()})
