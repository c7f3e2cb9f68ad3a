"""Peers of the benchmarks: programs that a careful developer would write without this package."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from benchmarks.disk import forget_the_past
from benchmarks.harness import processor_seconds, spent_since
from benchmarks.warehouses import Followed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_EVERY = "100 milliseconds"
_FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


def joined(orders: DataFrame, products: DataFrame) -> DataFrame:
    """Orders with their products: columns key, left, right."""
    product = F.concat(F.lit('"'), F.get_json_object("value", "$.product_id"), F.lit('"'))
    left = orders.select("key", F.col("value").alias("left"), product.alias("fk"))
    right = products.select(F.col("key").alias("fk"), F.col("value").alias("right"))
    return left.join(right, "fk").select("key", "left", "right")


def recompute(spark: SparkSession, orders: str, products: str, target: Path) -> None:
    """Read both tables, join them, and write one Delta table."""
    tables = (spark.read.format("delta").load(place) for place in (orders, products))
    joined(*tables).write.format("delta").mode("overwrite").save(str(target))


def copy_of(spark: SparkSession, table: DataFrame, folder: Path, *, feed: bool = False) -> str:
    """Create a Delta table with these rows, and return its name in SQL."""
    name = f"delta.`{folder}`"
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in table.schema)
    spark.sql(f"CREATE TABLE {name} ({columns}) USING DELTA {_FEED if feed else ''}")
    table.write.format("delta").mode("append").save(str(folder))
    return name


def merge(spark: SparkSession, rows: DataFrame, target: str) -> None:
    """Merge rows into a table with a plain MERGE by key."""
    spark.sql(
        f"MERGE INTO {target} t USING {{rows}} s ON t.key = s.key"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        rows=rows,
    ).collect()


def newest_commit(folder: Path) -> Path:
    """The file of a table's newest commit."""
    return max((folder / "_delta_log").glob("?" * 20 + ".json"))


def newest_version(folder: Path) -> int:
    """The newest version of a table."""
    return int(newest_commit(folder).stem)


def committed_at(folder: Path) -> float:
    """When the newest commit of a table was made."""
    return newest_commit(folder).stat().st_mtime


@dataclass(frozen=True, slots=True)
class Notebook:
    """The usual notebook: a foreachBatch over the change feed of the orders, joined with all products.

    Every batch is merged by key into the result, with default settings.
    """

    spark: SparkSession
    folder: Path

    @classmethod
    @contextmanager
    def running(cls, spark: SparkSession, folder: Path, orders: DataFrame, products: DataFrame) -> Iterator[Notebook]:
        """Start the notebook on tables of its own, and stop it at the end of the block."""
        folder.mkdir(parents=True)
        copy_of(spark, orders.select("key", "value", "timestamp"), folder / "orders", feed=True)
        copy_of(spark, products.select("key", "value", "timestamp"), folder / "products")
        tables = (spark.read.format("delta").load(str(folder / name)) for name in ("orders", "products"))
        target = copy_of(spark, joined(*tables), folder / "result")

        def batch(changes: DataFrame, _number: int) -> None:
            newest = Window.partitionBy("key").orderBy(F.col("_commit_version").desc())
            latest = changes.where("_change_type <> 'update_preimage'").withColumn("row", F.row_number().over(newest))
            table = changes.sparkSession.read.format("delta").load(str(folder / "products"))
            merge(changes.sparkSession, joined(latest.where("row = 1"), table), target)

        with _stream(spark, folder / "orders", batch, folder / "checkpoint"):
            yield cls(spark, folder)

    def follow(self, rows: DataFrame) -> Followed:
        """Change orders, and wait until the result has followed."""
        before_this = committed_at(self.folder / "result")
        merge(self.spark, rows, f"delta.`{self.folder / 'orders'}`")
        began, before = committed_at(self.folder / "orders"), processor_seconds()
        result = wait_for_commit(self.folder / "result", before_this)
        return Followed(result - began, result - began, spent_since(before))

    def forget_the_past(self) -> None:
        """Delete old data files, to make room on the disk."""
        for table in ("orders", "result"):
            forget_the_past(self.folder / table)


@dataclass(frozen=True, slots=True)
class LoneMerge:
    """One MERGE of the rows that arrive, in a foreachBatch that does nothing else, without adaptive planning."""

    spark: SparkSession
    folder: Path

    @classmethod
    @contextmanager
    def running(cls, spark: SparkSession, folder: Path, result: DataFrame) -> Iterator[LoneMerge]:
        """Start the stream with a result of its own, and stop it at the end of the block."""
        folder.mkdir(parents=True)
        target = copy_of(spark, result, folder / "result")
        copy_of(spark, result.limit(0), folder / "rows", feed=True)
        columns = result.columns

        def batch(changes: DataFrame, _number: int) -> None:
            changes.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
            merge(changes.sparkSession, changes.select(*columns), target)

        with _stream(spark, folder / "rows", batch, folder / "checkpoint"):
            yield cls(spark, folder)

    def follow(self, rows: DataFrame) -> Followed:
        """Append rows, and wait until they are merged."""
        before_this = committed_at(self.folder / "result")
        rows.coalesce(1).write.format("delta").mode("append").save(str(self.folder / "rows"))
        began, before = committed_at(self.folder / "rows"), processor_seconds()
        result = wait_for_commit(self.folder / "result", before_this)
        return Followed(result - began, result - began, spent_since(before))


def drain(spark: SparkSession, table: Path, checkpoint: Path, batch: Callable[[DataFrame, int], Any]) -> None:
    """Start a query over the whole feed of a table, and end it when all is processed."""
    _writer(spark, table, -1, batch, checkpoint).trigger(availableNow=True).start().awaitTermination()


def wait_for_commit(folder: Path, since: float) -> float:
    """Wait for a commit of a table after ``since``, and return when it was made."""
    while (found := committed_at(folder)) <= since:
        time.sleep(0.01)
    return found


@contextmanager
def _stream(
    spark: SparkSession, table: Path, batch: Callable[[DataFrame, int], Any], checkpoint: Path
) -> Iterator[StreamingQuery]:
    query = _writer(spark, table, newest_version(table), batch, checkpoint).trigger(processingTime=_EVERY).start()
    try:
        query.processAllAvailable()
        yield query
    finally:
        query.stop()


def _writer(
    spark: SparkSession, table: Path, after: int, batch: Callable[[DataFrame, int], Any], checkpoint: Path
) -> Any:
    feed = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", max(after, 0))
    rows = feed.load(str(table)).where(f"_commit_version > {after}")
    return rows.writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
