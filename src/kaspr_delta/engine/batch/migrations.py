"""Migrations: the steps that bring the state of an older format to the format of this version.

The first run of a resource takes them, under its lock (``Recovery``). A step commits only what may be committed again,
and the last commit, a start in the log, has the new number: a run that is killed before it takes all steps again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import (
    AggregationPlan,
    ForeignKeyJoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
)
from kaspr_delta.plan.definition.resources import ResourceRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.engine.batch.resource import Resource

# The length of a line of base64. Longer text has a line break, or lacks the one that it needed to match.
_LINE = 76


@dataclass(frozen=True, slots=True)
class Migration:
    """The step from one format to the next. ``change`` says in one line how the formats differ.

    ``mend`` changes the tables of a resource, by commits that may be repeated. It returns whether results may have been
    wrong: then the state is made anew, as by a rebuild, and what comes out differently is emitted.
    """

    change: str
    mend: Callable[[SparkSession, Resource[Any]], bool]


def check_format(ref: ResourceRef, found: int) -> None:
    """Raise SetupError if this version can neither continue nor migrate a state of this format."""
    if found > STATE_FORMAT:
        raise SetupError(
            f"the state of {ref} has format {found}, and this version of kaspr-delta keeps format {STATE_FORMAT}. A"
            " state does not go back: use the version that migrated it, or a copy of the warehouse from before that, or"
            f" begin anew (kaspr-delta delete {ref.kind} {ref.name} --purge, and apply it again)"
        )
    if found < min(MIGRATIONS):
        raise SetupError(
            f"the state of {ref} has format {found}, and this version of kaspr-delta migrates states from format"
            f" {min(MIGRATIONS)} on: use the version that wrote it, or a new warehouse"
        )


def migrations_from(found: int) -> list[Migration]:
    """The steps from a format to that of this version."""
    return [MIGRATIONS[number] for number in range(found, STATE_FORMAT)]


def _on_one_line(spark: SparkSession, resource: Resource[Any]) -> bool:
    """Remove the line breaks from base64 text: Spark wrote them and Python did not, so long keys did not match.

    If no text is longer than a line, nothing is written, and no result was wrong.
    """
    delta, wrong = resource.delta, False
    for table, columns in _base64_columns(resource.application, resource.plan).items():
        long = " OR ".join(f"character_length({name}) > {_LINE}" for name in columns)
        (count,) = delta.scan(spark, table).where(long).aggregate("count(*)")
        if count:
            lines = ", ".join(f"{name} = replace({name}, char(13) || char(10), '')" for name in columns)
            delta.update(spark, table, lines, " OR ".join(f"contains({name}, char(10))" for name in columns))
            wrong = True
    return wrong


def _base64_columns(application: Plan, plan: Any) -> Mapping[str, list[str]]:
    """The columns of a resource's tables that have bytes as base64 text, by table."""

    def raw(name: str, part: str = "key") -> bool:
        serializers = application.table_or_result(name).serializers
        return (serializers.key if part == "key" else serializers.value) == "raw"

    match plan:
        case ForeignKeyJoinPlan():
            left, right = (["key"] if raw(plan.left) else []), (["fk"] if raw(plan.right) else [])
            columns = {plan.subscriptions: left + right, plan.result: left}
        case SameKeyJoinPlan():
            columns = {plan.result: ["key"] if raw(plan.left) else []}
        case RightForeignKeyJoinPlan():
            columns = {plan.index: ["id"] if raw(plan.right) else []}
        case AggregationPlan(origin=str(origin)):
            has = {"key": raw(origin), "grp": raw(plan.name), "value": raw(origin, "value")}
            columns = {plan.contributions: [name for name, is_raw in has.items() if is_raw]}
        case _:
            columns = {}
    return {table: names for table, names in columns.items() if names}


MIGRATIONS: Mapping[int, Migration] = {
    1: Migration("base64 text of bytes has no line breaks", _on_one_line),
}
"""The step from each older format to the next one."""
