"""Counts of an application's tables and runs, from Delta's logs and Spark's checkpoints, or through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kaspr_delta.control.figures import Figures
from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.control.resource_status import Facts
from kaspr_delta.control.totals import totals_by_spark
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import folder_tables, open_tables
from kaspr_delta.storage.system_tables import SessionSystemTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.storage.tables import Tables


def facts_of(warehouse: Warehouse, schema: str, plan: Plan | None) -> Facts:
    """The facts of an application in a warehouse. Uses Spark only if its tables are not on this machine."""
    if plan is None:
        return NoFacts()
    namespace = warehouse.namespace(schema)
    local = folder_tables(namespace)
    if local is not None:
        return Figures.of(local, plan)
    from kaspr_delta.runtime.session import spark_session

    return SparkFacts(spark_session(warehouse.log_file), open_tables(namespace), plan)


class NoFacts:
    """The facts of an application whose resources were all deleted."""

    done: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    rebuilds: Mapping[ResourceRef, str] = MappingProxyType({})

    def rows(self, table: str) -> int | None:  # noqa: ARG002
        return None

    def lag(self, ref: ResourceRef) -> int | None:  # noqa: ARG002
        return None


@dataclass
class SparkFacts:
    """The facts of an application in any warehouse. The lag of its resources is unknown."""

    spark: SparkSession
    delta: Tables
    plan: Plan

    def rows(self, table: str) -> int | None:
        return self.delta.read(self.spark, table).count() if self.delta.exists(self.spark, table) else 0

    def lag(self, ref: ResourceRef) -> int | None:  # noqa: ARG002
        return None

    @cached_property
    def rebuilds(self) -> Mapping[ResourceRef, str]:
        return rebuilds_in(self.plan, SessionSystemTables(self.spark, self.delta).query)

    @cached_property
    def done(self) -> Mapping[str, Mapping[str, Any]]:
        return totals_by_spark(partial(self.delta.query, self.spark)).resources
