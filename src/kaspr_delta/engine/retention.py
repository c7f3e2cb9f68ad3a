"""What is old leaves: rows and records whose retention is over, as ``extraTopicConfigs`` and declarations say."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.storage.layout import WRITTEN_AT
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def remove_old(delta: Tables, spark: SparkSession, plan: Plan) -> None:
    """Delete rows of tables that were not written, and records of topics that were made, longer ago than they are kept.

    Joins see a deleted row. A row that SQL wrote without a time counts from the first time it is seen here.
    """
    now = datetime.now(timezone.utc)
    for table in plan.tables:
        if table.retention is not None:
            written = WRITTEN_AT if table.typed else "timestamp"
            if not delta.read(spark, table.state).where(F.col(written).isNull()).isEmpty():
                delta.update(spark, table.state, f"{written} = {{now}}", f"{written} IS NULL", now=now)
            before = now - timedelta(milliseconds=table.retention)
            for name in dict.fromkeys((table.state, table.delta_name)):
                _remove_before(delta, spark, name, before, column=written)
    for topic in plan.topics:
        if topic.retention is not None:
            before = now - timedelta(milliseconds=topic.retention)
            _remove_before(delta, spark, topic.delta_name, before)
            if topic.binding is not None and topic.binding.direction == "input":  # what came in stands there too
                _remove_before(delta, spark, topic.log, before, "kind = 'send'")


def _remove_before(  # noqa: PLR0913, PLR0917  what is deleted
    delta: Tables, spark: SparkSession, table: str, moment: datetime, only: str = "true", column: str = "timestamp"
) -> None:
    # Looked up first: a deletion costs more than a look, also where there is nothing to delete.
    if not delta.read(spark, table).where((F.col(column) < moment) & F.expr(only)).isEmpty():
        delta.delete(spark, table, f"{column} < {{moment}} AND {only}", moment=moment)
