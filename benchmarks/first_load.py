"""B1 and B7: the first load of a join, compared with plain Spark, with DuckDB and with a recorded figure.

``docs/benchmarks.md`` says how the figure of Kafka Streams was recorded. It is that of the best setting: it joined
12.0 k to 13.9 k rows a second with no linger, 6.0 k with its defaults.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks import peers
from benchmarks.data import Size
from benchmarks.harness import Cost, Measurement, compared, cost_of, median_cost
from benchmarks.warehouses import Orders

KAFKA_STREAMS = 16_000
_TIMES_KAFKA_STREAMS = 5
_PLAIN_SPARK = 1.6
_DUCKDB = 2
_ROUNDS = 5
# The number of orders of a first round, which does not count: enough for the JVM to compile all code.
_WARM = 100_000


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """The first load of orders with their products, until it is readable on the channel and until it is folded."""
    size = Size.of(rows)
    _round(folder / "warm", Size.of(min(rows, _WARM)))
    rounds = [_round(folder / f"round-{number}", size) for number in range(_ROUNDS)]
    plain, duckdb, channel, folded = map(median_cost, zip(*rounds, strict=True))
    what = f"first load of {size}"
    yield compared("B1", f"{what}, folded", folded, plain, _PLAIN_SPARK, "plain Spark: read, join, write")
    yield compared("B1", f"{what}, folded, against DuckDB", folded, duckdb, _DUCKDB, "DuckDB, and delta-rs writes")
    yield compared("B1", f"{what}, readable on the channel", channel, plain, None, "the same runs")
    yield _against_kafka_streams(f"{what}, folded", size, folded)


def _round(folder: Path, size: Size) -> tuple[Cost, Cost, Cost, Cost]:
    """The costs of one load: by plain Spark, by DuckDB, and by the join until it is readable and until it is folded."""
    orders = Orders.filled(folder / "wh", size)
    tables = orders.place("orders"), orders.place("products")
    plain = cost_of(lambda: peers.recompute(orders.app.spark, *tables, folder / "plain"))
    duckdb = cost_of(lambda: peers.recompute_without_spark(*tables, folder / "duckdb"))
    ours = orders.load()
    orders.expect(size.orders)
    shutil.rmtree(folder)
    return plain, duckdb, *ours


def _against_kafka_streams(what: str, size: Size, ours: Cost) -> Measurement:
    speed, million = size.orders / ours.seconds, size.orders / 1_000_000
    ratio = speed / KAFKA_STREAMS
    return Measurement(
        f"{what}, against Kafka Streams' recorded figure",
        round(speed),
        KAFKA_STREAMS,
        round(ratio, 3),
        f">= {_TIMES_KAFKA_STREAMS}",
        ratio >= _TIMES_KAFKA_STREAMS,
        round(ours.cpu / million, 1),
        benchmark="B7",
        note="recorded with 200 k x 10 k and a real broker",
    )
