"""A comparison: the rows that a rebuild would change, in a table beside the result. The state stays as it is.

The current view of a result can show them in place of the stored ones, before a rebuild takes them, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.state_definitions import compared_with
from kaspr_delta.plan.names import current_view, differences_table, shown_table
from kaspr_delta.spec.resource import OnChange
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import DIFFERENCES
from kaspr_delta.storage.tables import Frame, Tables


@dataclass(frozen=True, slots=True)
class Comparison:
    """The numbers of rows that a rebuild would add, remove, change and leave, and the ``table`` with the first three.

    ``definition`` is that of the new state, ``versions`` those of the sources.
    """

    definition: Mapping[str, str]
    versions: Mapping[str, int]
    table: str
    added: int
    removed: int
    changed: int
    equal: int

    def __str__(self) -> str:
        sources = ", ".join(f"{table} at version {version}" for table, version in self.versions.items())
        counts = f"added: {self.added}, removed: {self.removed}, changed: {self.changed}, equal: {self.equal}"
        return f"{compared_with(self.definition)} from {sources}: rows {counts}; {self.table} has those that differ"


def compare(
    resource: Resource[Any], spark: SparkSession, decision: Decision, positions: Mapping[str, int]
) -> Comparison:
    """Replace the table of differences, in one commit, by those of a first decision. Raises UsageError without result.

    The caller has the lock of the table group, so that the result stays as it is.
    """
    result, effects, delta = _result_of(resource), decision.effects, resource.delta
    rows: Frame = arrow_schema(DIFFERENCES.columns).empty_table()
    if effects.max_rows != 0:  # rows on the driver may lack columns where there are none
        stored = resource.stored_result(spark) or result
        before = delta.read(spark, result.plan.delta_name).select(stored.key, stored.value.alias("before"))
        rows = differences(result, resource.result_rows(effects).df, before)
    table = differences_table(resource.ref.name)
    delta.create(spark, table, DIFFERENCES)
    delta.replace(spark, rows, table)
    counted = delta.query(spark, table, "SELECT difference, count(*) AS many FROM t GROUP BY difference")
    counts = {row["difference"]: row["many"] for row in counted}
    added, removed, changed = (counts.get(name, 0) for name in ("added", "removed", "changed"))
    equal = delta.count(spark, result.plan.delta_name) - removed - changed
    versions = {source.table: positions[name] for name, source in resource.sources(spark).items()}
    return Comparison(resource.definition, versions, table, added, removed, changed, equal)


def show(resource: Resource[Any], spark: SparkSession, decision: Decision) -> int:
    """Let the current view show the new result of a first decision, by one commit; return the number of its rows.

    These are all rows that may differ. Raises UsageError without result.
    """
    _result_of(resource)
    if decision.effects.max_rows == 0:
        hide(resource.delta, spark, resource.ref)
        return 0
    table = shown_table(resource.ref.name)
    resource.delta.replace(spark, resource.result_rows(decision.effects).df, table)
    return resource.delta.count(spark, table)


def hide(delta: Tables, spark: SparkSession, ref: ResourceRef) -> None:
    """Let the current view show the stored result, by one commit."""
    delta.delete(spark, shown_table(ref.name), "true")


def shows_new(delta: Tables, spark: SparkSession, ref: ResourceRef, reaction: OnChange) -> bool:
    """Whether the current view of a resource shows another result than the stored one."""
    if reaction != "side-by-side":
        return False
    (found,) = delta.query(spark, shown_table(ref.name), "SELECT count(*) AS many FROM t")
    return bool(found["many"])


def any_shows_new(delta: Tables, spark: SparkSession, refs: Collection[ResourceRef]) -> bool:
    """Whether the current view of one of these resources, which are compared side by side, shows another result."""
    shown = [shown_table(ref.name) for ref in refs]
    return bool(shown) and any(delta.query_each(spark, dict.fromkeys(shown, "SELECT 1 AS one FROM t LIMIT 1")).values())


def end_comparison(delta: Tables, spark: SparkSession, ref: ResourceRef, reaction: OnChange) -> None:
    """Leave only the result of a resource that goes on, or that was made anew."""
    if delta.is_known(differences_table(ref.name)):
        delta.drop(spark, differences_table(ref.name))
    if shows_new(delta, spark, ref, reaction):
        hide(delta, spark, ref)
    elif reaction != "side-by-side" and delta.is_known(shown_table(ref.name)):
        delta.drop_view(spark, current_view(ref.name))
        delta.drop(spark, shown_table(ref.name))


def _result_of(resource: Resource[Any]) -> KeyedTable:
    if resource.result is None:
        raise UsageError(f"{resource.ref} has no result that could be compared: its records are on its channel")
    return resource.result


def differences(result: KeyedTable, new: DataFrame, stored: DataFrame) -> DataFrame:
    """Rows of DIFFERENCES. ``new`` are all rows that may differ from the stored ones, with ``keep``.

    ``stored`` has the columns key and before, the value as text. Rows that differ only in the time at which they were
    written are equal.
    """
    after = new.select(result.key, F.when(F.col("keep"), result.value).alias("after"))
    rows = after.join(stored, "key", "left")
    is_new, is_gone = F.col("before").isNull(), F.col("after").isNull()
    kind = F.when(is_new, "added").when(is_gone, "removed").otherwise("changed").alias("difference")
    return rows.where(~F.col("before").eqNullSafe(F.col("after"))).select("key", kind, "before", "after")
