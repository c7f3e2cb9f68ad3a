"""The report of a run, by resource, and the status of an application."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kaspr_delta.control.dead_letters import summed_by_resource
from kaspr_delta.control.totals import LastBatches, Totals, after
from kaspr_delta.engine.batch.counters import Metric, as_metrics, native_failures, work_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.waiting import in_words
from kaspr_delta.storage.layout import OF_RESOURCES, PROGRESS
from kaspr_delta.storage.statistics import NativeFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.engine.batch.progress import BatchReport
    from kaspr_delta.storage.system_tables import SystemTables
    from kaspr_delta.storage.tables import Tables


STEPS = ("decide", "commit", "fold")
"""The steps of a batch, in order."""


@dataclass(frozen=True, slots=True)
class ResourceReport:
    """The sums over all batches of one resource: see ``engine.batch.progress.BatchReport``."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    stale: int = 0
    conflicts: int = 0
    seconds: float = 0.0

    def __add__(self, one: BatchReport) -> ResourceReport:
        """These sums with another batch."""
        sums = {name: getattr(self, name) + getattr(one, name) for name in _SUMS}
        return ResourceReport(self.batches + 1, **sums)

    @property
    def is_fruitless(self) -> bool:
        """Whether there were events, and each became a dead letter."""
        return self.dead_letters >= self.rows_in > self.rows_out == 0


_SUMS = tuple(name for name in ResourceReport.__dataclass_fields__ if name != "batches")


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The work and the cost of a resource's last batch.

    ``steps`` are seconds: ``decide`` (the computation of the batch; of many rows only its plan), ``commit`` (the append
    to the log; of many rows also the computation) and ``fold``. The other numbers are those of its MERGEs: see
    ``storage.tables.Merged``. A number is None if the batch does not have it, or if it is unknown.
    """

    rows_in: int
    rows_out: int
    seconds: float
    steps: Mapping[str, float] = field(default_factory=dict)
    merged: int | None = None
    copied: int | None = None
    rewritten: int | None = None

    @classmethod
    def of(cls, rows_in: int, rows_out: int, seconds: float, counts: str | None = None) -> LastBatch:
        """The last batch from the columns of its progress row."""
        work = work_of(json.loads(counts or "{}"))
        steps = {step: work[step] / 1_000 for step in STEPS if step in work}
        numbers = [work.get(name) for name in ("rows", "copied", "rewritten")]
        return cls(rows_in, rows_out, seconds, steps, *numbers)


@dataclass(frozen=True, slots=True)
class StatusLine:
    """The status of a resource. ``state`` is ``ran``, ``new`` (before its first batch), or says for what it waits.

    ``dead_letters`` counts those that exist now; ``failures`` all that ever existed, also those that a retry removed.
    """

    resource: ResourceRef
    state: str
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    last_batch: datetime | None = None
    last: LastBatch | None = None
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """The state of an application: its resources in the order in which they run, and all counters.

    ``native_failures``: how often each operation of delta-rs failed, so that Spark did it instead.
    """

    resources: tuple[StatusLine, ...]
    metrics: tuple[Metric, ...]
    native_failures: Mapping[NativeFailure, int] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, totals: Totals, letters: Mapping[tuple[str, str], int]) -> Status:
        """The status of a plan's resources, summed over the batches of all runs so far. ``letters``: see letters_in."""
        reasons, failed = dict(plan.waiting), summed_by_resource(letters)
        resources = []
        for ref in dict.fromkeys([*plan.runs, *reasons]):
            done = totals.resources.get(str(ref))
            state = in_words(reasons[ref]) if ref in reasons else "new" if done is None else "ran"
            counts = {} if done is None else {**done, "last": LastBatch.of(**done["last"])}
            resources.append(StatusLine(ref, state, dead_letters=failed[str(ref)], **counts))
        counters = totals.summed_counters
        return cls(tuple(resources), tuple(as_metrics(counters)), native_failures(counters))

    @property
    def plain(self) -> dict[str, Any]:
        """The status as JSON data, except for moments."""
        return {
            "resources": [
                {
                    "resource": str(one.resource),
                    "state": one.state,
                    "rowsIn": one.rows_in,
                    "rowsOut": one.rows_out,
                    "deadLetters": one.dead_letters,
                    "failures": one.failures,
                    "lastBatch": one.last_batch,
                }
                for one in self.resources
            ],
            "metrics": [{"name": one.name, "labels": dict(one.labels), "value": one.value} for one in self.metrics],
        }


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report of a run. ``resources`` maps ``kind/name`` to its report; resources without a batch are left out.

    ``rebuilt`` maps those whose state the run made anew to the reasons.
    """

    resources: Mapping[str, ResourceReport]
    rebuilt: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows_out(self) -> int:
        """Records emitted and table rows written by all resources."""
        return sum(report.rows_out for report in self.resources.values())

    @property
    def dead_letters(self) -> int:
        """Dead letters of all resources."""
        return sum(report.dead_letters for report in self.resources.values())

    @property
    def fruitless(self) -> tuple[str, ...]:
        """The resources of which every event of this run became a dead letter."""
        return tuple(name for name, one in self.resources.items() if one.is_fruitless)

    @classmethod
    def of(cls, reports: Iterable[tuple[ResourceRef, BatchReport]], rebuilt: Mapping[ResourceRef, str]) -> RunReport:
        """The report of batches that ran in this process."""
        summed: dict[str, ResourceReport] = {}
        for ref, report in reports:
            summed[str(ref)] = summed.get(str(ref), ResourceReport()) + report
        return cls(summed, {str(ref): reason for ref, reason in rebuilt.items()})

    @classmethod
    def after(
        cls, spark: SparkSession, delta: Tables, known: LastBatches, rebuilt: Mapping[ResourceRef, str] | None = None
    ) -> RunReport:
        """The report of all batches after the known ones, wherever they ran."""
        new, values = after(known)
        rows = delta.query(spark, PROGRESS, _summed_where(new), **values)
        return cls(_by_resource(rows), {str(ref): reason for ref, reason in (rebuilt or {}).items()})

    @classmethod
    def since(cls, system: SystemTables, moment: datetime) -> RunReport:
        """The report of all batches after a moment by the clocks of those that ran them, for people."""
        return cls(_by_resource(system.query(PROGRESS, _summed_where(f"at > {system.value(moment)}"))))


def _summed_where(condition: str) -> str:
    """The query of the sums of each resource, over the batches that meet the condition."""
    sums = ", ".join(f"sum({name}) AS {name}" for name in _SUMS)
    wanted = f"{condition} AND {OF_RESOURCES}"
    return f"SELECT resource, count(*) AS batches, {sums} FROM t WHERE {wanted} GROUP BY resource"  # noqa: S608


def _by_resource(rows: Iterable[Mapping[str, Any]]) -> dict[str, ResourceReport]:
    return {row["resource"]: ResourceReport(**{name: row[name] for name in ("batches", *_SUMS)}) for row in rows}
