"""Repair of states of older versions: base64 text had line breaks if Spark wrote it, and none if Python did.

Keys of more than 57 bytes did not match then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The length of a line. Longer text has a line break, or lacks the one that it needed to match.
_LINE = 76


def put_on_one_line(delta: Tables, spark: SparkSession, columns: Mapping[str, Collection[str]]) -> bool:
    """Remove the line breaks from columns with base64 text, given by table.

    Returns whether any text is longer than a line. If none is, nothing is written, and no result was wrong.
    """
    long = [table for table, names in columns.items() if _has_long(delta, spark, table, names)]
    for table in long:
        names = columns[table]
        lines = ", ".join(f"{name} = replace({name}, char(13) || char(10), '')" for name in names)
        delta.update(spark, table, lines, " OR ".join(f"contains({name}, char(10))" for name in names))
    return bool(long)


def _has_long(delta: Tables, spark: SparkSession, table: str, names: Collection[str]) -> bool:
    long = " OR ".join(f"character_length({name}) > {_LINE}" for name in names)
    (count,) = delta.scan(spark, table).where(long).aggregate("count(*)")
    return bool(count)
