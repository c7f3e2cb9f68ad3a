"""The order of records on a topic or channel.

``seq`` orders the rows of one commit; ``offset`` puts the commit's version before it, so that offsets order everything
on a topic and never repeat, as Kafka's do. They have gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import Column

# A commit holds up to 2^34 rows, written by up to 1,024 tasks of up to 2^24 rows; 2^29 commits fit beside that.
SEQ_BITS = 34
"""The number of bits of an offset that hold the ``seq``; the version is above them."""
SEQ_MASK = (1 << SEQ_BITS) - 1
_TASK_BITS = 24
MOST_TASKS = 1 << (SEQ_BITS - _TASK_BITS)
"""The most tasks that may write one commit."""
_ROW_MASK = (1 << 33) - 1  # the row's number inside its task, in Spark's monotonically_increasing_id


def first_seq(task: int) -> int:
    """The number from which a task counts its rows."""
    return task << _TASK_BITS


def seq_of_rows() -> Column:
    """A ``seq`` for rows in the order in which tasks hold them."""
    from pyspark.sql import functions as F

    row = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_MASK))
    return (F.shiftleft(F.spark_partition_id().cast("bigint"), _TASK_BITS) + row).alias("seq")


def version_of(offset: int) -> int:
    """The version of the commit that wrote the record of an offset."""
    return max(offset, 0) >> SEQ_BITS


def seq_of(offset: int) -> int:
    """The number of a record in its commit."""
    return offset & SEQ_MASK


def end_of(version: int) -> int:
    """The greatest offset that a record of that version, or of an earlier one, can have."""
    return ((version + 1) << SEQ_BITS) - 1


def offset() -> Column:
    """The offset of a row of a topic's or channel's change feed."""
    from pyspark.sql import functions as F

    return (F.shiftleft(F.col("_commit_version"), SEQ_BITS) + F.col("seq")).alias("offset")


def offsets(rows: pa.Table) -> pa.ChunkedArray:
    """The same of rows on the driver."""
    import pyarrow.compute as pc  # commands that read no records do without

    return pc.add(pc.shift_left(rows["_commit_version"].cast(pa.int64()), SEQ_BITS), rows["seq"])
