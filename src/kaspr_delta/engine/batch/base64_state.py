"""State of older versions, in which base64 text of bytes had line breaks where Spark wrote it, and none from Python.

Keys of more than 57 bytes did not find each other then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Longer text has a line break, or had none where it needed one to be found.
_LINE = 76


def put_on_one_line(delta: Tables, spark: SparkSession, columns: Mapping[str, Collection[str]]) -> bool:
    """Take the line breaks out of columns with base64 text, by table.

    Returns whether any text is longer than a line. Where none is, nothing is written, and no answer was wrong.
    """
    long = [table for table, names in columns.items() if _has_long(delta, spark, table, names)]
    for table in long:
        names = columns[table]
        lines = ", ".join(f"{name} = replace({name}, char(13) || char(10), '')" for name in names)
        delta.update(spark, table, lines, " OR ".join(f"contains({name}, char(10))" for name in names))
    return bool(long)


def _has_long(delta: Tables, spark: SparkSession, table: str, names: Collection[str]) -> bool:
    long = " OR ".join(f"character_length({name}) > {_LINE}" for name in names)
    (count,) = delta.scan(spark, table, long).aggregate("count(*)")
    return bool(count)
