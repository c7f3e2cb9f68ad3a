"""B6: agents, compared with programs written by hand (peers), on the same topic and with the same functions.

A ratio is the agent's rows per second divided by the peer's; for the growth of a state it is a ratio of seconds.

Agents and peers run twice, each time on a new warehouse. The first run does not count: a JVM that has compiled neither
the plan nor its code takes many times as long for a batch. Peers use Python's own ``json``.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from benchmarks.harness import Measurement, cost_of
from kaspr_delta import Application
from kaspr_delta.functions.entrypoint import resolve
from tests.folders import folder_of

CATEGORIES = 50
GROWTH = 2
# The number of events of the first run: enough for the JVM to compile all code.
_WARM = 1_000_000
_COUNTERS = {"count": "events", "touch": "touches"}  # agents that count, and their topics
_MANIFEST = """
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: counters, labels: {kaspr.io/app: bench}}
spec: {defaultSelector: {python: "def default(): return int"}}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprAgent
metadata: {name: map, labels: {kaspr.io/app: bench}}
spec:
  input: {topic: {name: events}}
  output: {topics: [{name: mapped}]}
  processors:
    pipeline: [map]
    operations: [{name: map, map: {python: "%(map)s"}}]
"""
_COUNTING = """---
apiVersion: kaspr.io/v1alpha1
kind: KasprAgent
metadata: {name: %(name)s, labels: {kaspr.io/app: bench}}
spec:
  input: {topic: {name: %(topic)s}}
  processors:
    pipeline: [count]
    operations:
      - {name: count, tables: [{name: counters, paramName: counters}], map: {python: "%(count)s"}}
"""
MAP = "def f(value):\\n  value['double'] = value['n'] * 2\\n  return value"
COUNT = "def f(value, counters):\\n  counters[value['category']] += 1\\n  return value"


def measure(folder: Path, rows: int) -> Iterator[Measurement]:
    """Results of a stateless map, of counting, and of a batch on a small and on a large state.

    There are three times as many events as ``rows``.
    """
    events = 3 * rows
    manifests = folder / "bench.yaml"
    counting = [_COUNTING % {"name": name, "topic": topic, "count": COUNT} for name, topic in _COUNTERS.items()]
    manifests.write_text(_MANIFEST % {"map": MAP} + "".join(counting))
    for part, size in (("warm-up", min(events, _WARM)), ("measured", events)):
        (folder / part).mkdir()
        app = Application.open(manifests, warehouse=folder / part / "wh")
        measured = list(_beside_peers(app, folder / part, size))
    yield from (replace(one, benchmark="B6") for one in (*measured, _growth(app)))


def _beside_peers(app: Application, folder: Path, events: int) -> Iterator[Measurement]:
    _fill(app, events)
    mapped = _against("agent, stateless map", events, lambda: _run(app, "map"), lambda: _bare_map(app, folder), 0.7)
    yield replace(mapped, note="the same function in `mapInArrow`, one write")
    counted = _against("agent, counting", events, lambda: _run(app, "count"), lambda: _one_process(app, folder), 0.4)
    yield replace(counted, note="one Python process, a dictionary")
    found = sum(app.table("counters").to_dict().values())
    if found != events:
        msg = f"{events} events went in, and {found} were counted"
        raise RuntimeError(msg)


def _against(name: str, rows: int, ours: Callable[[], Any], peer: Callable[[], Any], goal: float) -> Measurement:
    costs = [cost_of(work) for work in (ours, peer)]
    speeds = [rows / cost.seconds for cost in costs]
    cpu = [round(cost.cpu / rows * 1_000_000, 2) for cost in costs]
    ratio = speeds[0] / speeds[1]
    return Measurement(name, speeds[0], speeds[1], round(ratio, 3), f">= {goal}", ratio >= goal, cpu[0], cpu[1])


def _fill(app: Application, events: int) -> None:
    """Append events of Zipf-skewed categories, about 100 bytes of JSON each, in ten commits."""
    weights = [1 / (rank + 1) for rank in range(CATEGORIES)]
    total = sum(weights)
    bounds = [sum(weights[: rank + 1]) / total for rank in range(CATEGORIES)]
    category = F.lit(0)
    for bound in bounds[:-1]:
        category = category + (F.rand(7) > bound).cast("int")
    rows = app.spark.range(events).withColumn("category", F.concat(F.lit("category-"), category.cast("string")))
    value = F.to_json(F.struct("category", F.col("id").alias("n"), F.lit("x" * 40).alias("padding")))
    records = rows.select(
        F.encode(F.concat(F.lit('"k'), F.col("id") % 1000, F.lit('"')), "UTF-8").alias("key"),
        F.encode(value, "UTF-8").alias("value"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        F.current_timestamp().alias("timestamp"),
        F.pmod(F.col("id"), F.lit(app.plan.default_partitions)).cast("int").alias("partition"),
        F.col("id").alias("seq"),
    )
    for part in range(10):
        app.delta.append(app.spark, records.where(F.col("id") % 10 == part), "topic__events")


def _run(app: Application, agent: str) -> None:
    app.run(only=[f"agent/{agent}"])


def _bare_map(app: Application, folder: Path) -> None:
    """The peer of the map: decode, call the function and encode in ``mapInArrow``, without anything around it."""
    snippet = resolve(MAP.replace("\\n", "\n"))
    encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

    def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        function = snippet.function({})
        for batch in batches:
            values = [json.loads(value) for value in batch.column("value").to_pylist()]
            encoded = [encode(function(value)).encode() for value in values]
            yield pa.RecordBatch.from_arrays([batch.column("key"), pa.array(encoded, pa.binary())], ["key", "value"])

    rows = app.delta.read(app.spark, "topic__events").select("key", "value")
    rows.mapInArrow(mapped, "key BINARY, value BINARY").write.format("delta").save(str(folder / "bare"))


def _one_process(app: Application, folder: Path) -> None:
    """One Python process without Spark: read the topic once, count in a dictionary, write the counts as a table."""
    from deltalake import DeltaTable, write_deltalake

    function = resolve(COUNT.replace("\\n", "\n")).function({})
    counters: Counter[str] = Counter()
    location = folder_of(app.delta.namespace, "topic__events")
    for batch in DeltaTable(str(location)).to_pyarrow_dataset().to_batches(columns=["value"]):
        for value in batch.column("value").to_pylist():
            function(json.loads(value), counters)
    rows = pa.table({"key": list(counters), "value": [str(count) for count in counters.values()]})
    write_deltalake(str(folder / "counted"), rows)


def _growth(app: Application) -> Measurement:
    """A batch of 1,000 events on a table of ten thousand keys, then of a million."""
    seconds = []
    for keys in (10_000, 1_000_000):
        filled = app.spark.range(keys).select(
            F.format_string('"key-%07d"', "id").alias("key"),
            F.lit("1").alias("value"),
            F.current_timestamp().alias("timestamp"),
        )
        app.delta.replace(app.spark, filled, "counters")
        for warm in (True, False):
            touched = [{"value": {"category": f"key-{n * (keys // 1_000):07d}"}} for n in range(1_000)]
            app.topic("touches").produce(touched)
            started = time.monotonic()
            _run(app, "touch")
            if not warm:
                seconds.append(time.monotonic() - started)
    ratio = seconds[1] / seconds[0]
    name = "agent, 1,000 events on 1 M keys against 10 k keys"
    ours, peer = 1_000 / seconds[1], 1_000 / seconds[0]
    goal, note = f"<= {GROWTH} x the seconds", "the same batch on the smaller table"
    return Measurement(name, ours, peer, round(ratio, 3), goal, ratio <= GROWTH, note=note)
