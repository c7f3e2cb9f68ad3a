"""Counts of an application's tables and runs, from Delta's logs and Spark's checkpoints, or through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kaspr_delta.control.figures import Figures
from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.control.registry import Registry
from kaspr_delta.control.resource_status import Facts
from kaspr_delta.control.source_tables import as_found
from kaspr_delta.control.totals import totals_by_spark
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.system_tables import SessionSystemTables


def plan_and_facts(registry: Registry) -> tuple[Plan | None, Facts]:
    """The plan of an application as its resources would run now, and its facts. None if all were deleted."""
    applied, tables = registry.plan(), registry.tables
    plan = None if applied is None else as_found(tables, applied)
    match tables:
        case NativeSystemTables() if plan is not None:
            return plan, Figures.of(tables.delta, plan)
        case SessionSystemTables() if plan is not None:
            return plan, SparkFacts(tables, plan)
    return plan, Figures({}, {}, {})


@dataclass
class SparkFacts:
    """The facts of an application in any warehouse. The lag of its resources is unknown."""

    tables: SessionSystemTables
    plan: Plan

    def rows(self, table: str) -> int | None:
        return next((row["many"] for row in self.tables.query(table, "SELECT count(*) AS many FROM t")), 0)

    def lag(self, ref: ResourceRef) -> int | None:  # noqa: ARG002
        return None

    @cached_property
    def rebuilds(self) -> Mapping[ResourceRef, str]:
        return rebuilds_in(self.plan, self.tables.query)

    @cached_property
    def done(self) -> Mapping[str, Mapping[str, Any]]:
        return totals_by_spark(self.tables.query).resources
