"""B8: a scheduled run of an application, with nothing new and with 100 new orders. Java has started before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from benchmarks import peers
from benchmarks.harness import Cost, Measurement, compared, cost_of, median_cost
from kaspr_delta import Application
from kaspr_delta.cli.demo import bundle_folder, data_generator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TIMES = 5
# A run with nothing new takes a tenth of a second, and is measured more often.
_TIMES_NOTHING = 25
_NEW = 100
# The tables into which the queries of the order system merge: those of two agents, the join's result; one only appends.
_QUERIES = ("orders", "products", "result", None)
_EMPTY = "key STRING, value STRING, timestamp TIMESTAMP"


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """The order system with a hundredth of the rows.

    It is compared with four empty queries, and with four that append and merge as many rows.
    """
    rows = max(1_000, rows // 100)
    bundle = bundle_folder("order-system")
    generate: Any = data_generator(bundle)
    with Application.open(bundle, warehouse=folder / "wh") as app:
        spark = app.spark
        app.topic("raw-products").produce(generate.products(max(10, rows // 100)))
        app.topic("raw-orders").produce(generate.orders(rows, max(10, rows // 100)))
        app.run()
    queries = _Queries(spark, folder / "peer", rows)
    run = _application(bundle, folder / "wh")
    nothing = _interleaved(run, queries.drained_empty, lambda: None, _TIMES_NOTHING)
    yield compared("B8", "a run with nothing new", *nothing, 1.3, "starting and draining four empty queries")
    orders = list(generate.orders(rows + _NEW * (_TIMES + 1), max(10, rows // 100)))[rows:]

    def arrive() -> None:
        new = [orders.pop() for _ in range(_NEW)]
        Application.open(bundle, warehouse=folder / "wh").topic("raw-orders").produce(new)
        queries.arrive()

    some = _interleaved(run, queries.drained, arrive, _TIMES)
    yield compared("B8", f"a run with {_NEW} new orders", *some, 2, "four queries, each one append; three one MERGE")
    with Application.open(bundle, warehouse=folder / "wh") as app:
        enriched = app.sql("SELECT count(DISTINCT key) AS n FROM topic__enriched_orders").first()
    if enriched is None or enriched["n"] != rows + _NEW * (_TIMES + 1):
        msg = f"{enriched} orders were enriched"
        raise RuntimeError(msg)


def _application(bundle: Path, warehouse: Path) -> Callable[[], object]:
    """The work of a job: open the application, and run it until it is quiet."""
    return lambda: Application.open(bundle, warehouse=warehouse).run()


def _interleaved(
    ours: Callable[[], object], peer: Callable[[], object], before: Callable[[], None], times: int
) -> tuple[Cost, Cost]:
    costs: list[tuple[Cost, Cost]] = []
    for _ in range(times + 1):
        before()
        costs.append((cost_of(ours), cost_of(peer)))
    mine, theirs = zip(*costs[1:], strict=True)  # the first compiles code
    return median_cost(mine), median_cost(theirs)


class _Queries:
    """The peer: four queries over change feeds, one after the other, as a developer would schedule them."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int) -> None:
        self.spark, self.folder, self.next = spark, folder, rows
        folder.mkdir()
        for number, target in enumerate(_QUERIES):
            peers.copy_of(spark, spark.createDataFrame([], _EMPTY), folder / f"feed-{number}", feed=True)
            peers.copy_of(spark, spark.createDataFrame([], _EMPTY), folder / f"log-{number}")
            if target is not None:
                peers.copy_of(spark, self._rows(0, rows), folder / target)
        self.drained()

    def arrive(self) -> None:
        """New records for each of the queries."""
        for number, _ in enumerate(_QUERIES):
            rows = self._rows(self.next, _NEW).coalesce(1)
            rows.write.format("delta").mode("append").save(str(self.folder / f"feed-{number}"))
        self.next += _NEW

    def drained(self) -> None:
        """Start each query and end it when all is processed."""
        for number, target in enumerate(_QUERIES):
            self._drain(number, self._batch(number, target))

    def drained_empty(self) -> None:
        """Start and end each query in the same way, with batches that do nothing."""
        for number, _ in enumerate(_QUERIES):
            self._drain(number, lambda *_: None)

    def _drain(self, number: int, batch: Callable[[DataFrame, int], Any]) -> None:
        peers.drain(self.spark, self.folder / f"feed-{number}", self.folder / f"checkpoint-{number}", batch)

    def _batch(self, number: int, target: str | None) -> Callable[[DataFrame, int], None]:
        def batch(changes: DataFrame, _number: int) -> None:
            rows = changes.select("key", "value", "timestamp")
            rows.write.format("delta").mode("append").save(str(self.folder / f"log-{number}"))
            if target is not None:
                peers.merge(changes.sparkSession, rows, f"delta.`{self.folder / target}`")

        return batch

    def _rows(self, first: int, count: int) -> DataFrame:
        value = F.to_json(F.struct(F.col("id").alias("number"), F.sha2(F.col("id").cast("string"), 512).alias("text")))
        key, now = F.format_string('"%09d"', "id"), F.current_timestamp()
        return self.spark.range(first, first + count).select(
            key.alias("key"), value.alias("value"), now.alias("timestamp")
        )
