"""Peers of the benchmarks: programs that a careful developer would write without this package."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import Window
from pyspark.sql import functions as F

from benchmarks.harness import Cost, forget_the_past, processor_seconds, spent_since

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


def recompute_without_spark(orders: str, products: str, target: Path) -> None:
    """The same by DuckDB, which reads both tables and joins them, and by delta-rs, which writes the result."""
    with duckdb.connect() as database:
        for name, place in (("orders", orders), ("products", products)):
            database.read_parquet(DeltaTable(place).file_uris()).create_view(name)
        rows = database.sql(
            "SELECT orders.key, orders.value AS left, products.value AS right FROM orders"
            " JOIN products ON products.key = '\"' || (orders.value ->> '$.product_id') || '\"'"
        )
        write_deltalake(str(target), rows.to_arrow_reader(), mode="overwrite")


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


def _newest_commit(folder: Path) -> Path:
    return max((folder / "_delta_log").glob("?" * 20 + ".json"))


def _committed_at(folder: Path) -> float:
    return _newest_commit(folder).stat().st_mtime


@dataclass(frozen=True, slots=True)
class Peer:
    """A ``foreachBatch`` over the change feed of a table, which merges into the table ``result`` of its folder.

    ``write`` writes rows to the table.
    """

    folder: Path
    table: str
    write: Callable[[DataFrame], object]

    def follow(self, rows: DataFrame) -> Cost:
        """Write rows to the table, and wait until the result has followed."""
        known = _committed_at(self.folder / "result")
        self.write(rows)
        began, before = _committed_at(self.folder / self.table), processor_seconds()
        while (result := _committed_at(self.folder / "result")) <= known:
            time.sleep(0.01)
        return Cost(result - began, spent_since(before))

    def forget_the_past(self) -> None:
        """Delete old data files, to make room on the disk."""
        for table in (self.table, "result"):
            forget_the_past(self.folder / table)


@contextmanager
def notebook(spark: SparkSession, folder: Path, orders: DataFrame, products: DataFrame) -> Iterator[Peer]:
    """The usual notebook, on tables of its own: a foreachBatch over changed orders, joined with all products.

    Every batch is merged by key into the result, with default settings.
    """
    folder.mkdir(parents=True)
    copied = copy_of(spark, orders.select("key", "value", "timestamp"), folder / "orders", feed=True)
    copy_of(spark, products.select("key", "value", "timestamp"), folder / "products")
    tables = (spark.read.format("delta").load(str(folder / name)) for name in ("orders", "products"))
    target = copy_of(spark, joined(*tables), folder / "result")

    def batch(changes: DataFrame, _number: int) -> None:
        newest = Window.partitionBy("key").orderBy(F.col("_commit_version").desc())
        latest = changes.where("_change_type <> 'update_preimage'").withColumn("row", F.row_number().over(newest))
        table = changes.sparkSession.read.format("delta").load(str(folder / "products"))
        merge(changes.sparkSession, joined(latest.where("row = 1"), table), target)

    with _stream(spark, folder / "orders", batch, folder / "checkpoint"):
        yield Peer(folder, "orders", lambda rows: merge(spark, rows, copied))


@contextmanager
def lone_merge(spark: SparkSession, folder: Path, result: DataFrame) -> Iterator[Peer]:
    """One MERGE of the rows that arrive, in a foreachBatch that does nothing else, without adaptive planning."""
    folder.mkdir(parents=True)
    target = copy_of(spark, result, folder / "result")
    copy_of(spark, result.limit(0), folder / "rows", feed=True)
    columns = result.columns

    def batch(changes: DataFrame, _number: int) -> None:
        changes.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
        merge(changes.sparkSession, changes.select(*columns), target)

    def append(rows: DataFrame) -> None:
        rows.coalesce(1).write.format("delta").mode("append").save(str(folder / "rows"))

    with _stream(spark, folder / "rows", batch, folder / "checkpoint"):
        yield Peer(folder, "rows", append)


def drain(spark: SparkSession, table: Path, checkpoint: Path, batch: Callable[[DataFrame, int], Any]) -> None:
    """Start a query over the whole feed of a table, and end it when all is processed."""
    _writer(spark, table, -1, batch, checkpoint).trigger(availableNow=True).start().awaitTermination()


@contextmanager
def _stream(
    spark: SparkSession, table: Path, batch: Callable[[DataFrame, int], Any], checkpoint: Path
) -> Iterator[StreamingQuery]:
    query = (
        _writer(spark, table, int(_newest_commit(table).stem), batch, checkpoint).trigger(processingTime=_EVERY).start()
    )
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
