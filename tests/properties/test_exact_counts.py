"""Exact counts: skewed events in batches of random size, two agents on one table, kills at random moments."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kaspr_delta import Application
from kaspr_delta.storage.limits import Limits

MANIFESTS = Path(__file__).with_name("counting.yaml")
CATEGORIES = 50
COMMITS = 30
KILLS = 3


def fill(app: Application, topic: str, events: int, dice: random.Random) -> Counter[str]:
    """Write events in commits of random size; count them. The frequencies of their categories follow Zipf's law."""
    counted = Counter[str]()
    weights = [1 / rank for rank in range(1, CATEGORIES + 1)]
    cuts = sorted(dice.sample(range(1, events), COMMITS - 1))
    for first, last in zip([0, *cuts], [*cuts, events], strict=True):
        names = dice.choices(range(CATEGORIES), weights, k=last - first)
        rows = app.spark.createDataFrame([(name, n) for n, name in enumerate(names)], "category INT, seq LONG")
        counted.update(f"category {name}" for name in names)
        value = F.format_string('{"category":"category %d"}', "category")
        nothing = F.lit(None)
        app.delta.append(
            app.spark,
            rows.select(
                nothing.cast("binary").alias("key"),
                F.encode(value, "UTF-8").alias("value"),
                nothing.cast("array<struct<key:string,value:binary>>").alias("headers"),
                F.current_timestamp().alias("timestamp"),
                F.lit(0).alias("partition"),
                "seq",
            ).repartition(dice.randint(1, 4)),
            f"topic__events_{topic}",
        )
    return counted


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_million_events_are_counted_exactly_despite_kills(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(20_261_121)  # noqa: S311
    app = Application.open(MANIFESTS, warehouse=tmp_path, spark=spark)
    expected = Counter[str]()
    for topic in "ab":
        expected += fill(app, topic, 500_000, dice)

    program = [sys.executable, __file__, str(tmp_path)]
    kills = 0
    while True:
        before = commits(app)
        process = subprocess.Popen([*program, str(dice.randint(150_000, 600_000))])  # noqa: S603
        commits_before_kill = dice.randint(2, 4)
        try:
            while kills < KILLS and process.poll() is None and commits(app) < before + commits_before_kill:
                time.sleep(0.05)
            # Killed at a random moment after that.
            code = process.wait(timeout=dice.uniform(0, 5) if kills < KILLS else 1_800)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            continue
        assert code == 0
        break
    counted = app.table("counters").to_dict()
    assert kills == KILLS, "it was done before it was killed: let it have more to do"
    assert counted == expected


def commits(app: Application) -> int:
    """The number of commits in the logs of both agents."""
    return sum(app.delta.newest(app.spark, f"log__count_{name}").version for name in "ab")


if __name__ == "__main__":  # run until quiet or killed, in batches of at most about so many bytes of a topic's files
    Application.open(MANIFESTS, warehouse=sys.argv[1], limits=Limits(ordered_batch=sys.argv[2])).run()
