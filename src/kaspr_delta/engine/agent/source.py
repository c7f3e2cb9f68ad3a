"""What an agent reads: records of topics or of a join's channel, in one form. The only way to read either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.engine.sequence import offset
from kaspr_delta.plan.definition import ChannelInput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def topic_records(feed: DataFrame, topic: str) -> DataFrame:
    """A topic's change feed as rows of InputRecord."""
    appended = feed.where(F.col("_change_type") == "insert")  # retention deletes; that is no record
    return appended.select(F.lit(topic).alias("source"), "key", "value", "headers", "timestamp", "partition", offset())


def channel_records(feed: DataFrame, channel: ChannelInput, partitions: int) -> DataFrame:
    """A channel's change feed as rows of InputRecord: the value is JSON ``{"left": text, "right": text}``."""
    kinds = ("value", "tombstone") if channel.tombstones else ("value",)
    records = feed.where((F.col("_change_type") == "insert") & F.col("kind").isin(*kinds))
    pair = F.to_json(F.struct("left", "right"), {"ignoreNullFields": "false"})
    return records.select(
        F.lit(channel.channel).alias("source"),
        _bytes(F.col("key")).alias("key"),
        _bytes(F.when(F.col("kind") == "value", pair)).alias("value"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        "timestamp",
        F.pmod(F.crc32(_bytes(F.col("key"))), F.lit(partitions)).cast("int").alias("partition"),
        offset(),
    )


def _bytes(text: Column) -> Column:
    return F.encode(text, "UTF-8")
