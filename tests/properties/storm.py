"""A storm of random changes on both sides of an inner and a left join, compared with Spark's own join.

``python -m tests.properties.storm``
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql import functions as F

from kaspr_delta import Application
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from kaspr_delta.storage.limits import Limits, Size
from tests.limits import set_limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFESTS = Path(__file__).parents[1] / "spark" / "applications" / "inner-and-left.yaml"
LEFT_KEYS = 5_000
RIGHT_KEYS = 300  # so a right row has some 16 subscribers

LIMITS: Sequence[dict[str, Size]] = (
    {"changes": Limits().changes, "small_batch": Limits().small_batch},
    {"changes": Limits().changes, "small_batch": Size(1_000, 1 << 20)},
    {"changes": Size(0, 0), "small_batch": Size(0, 0)},
)
"""Limits with which the rows of a batch are on the driver, become too many for it, or are in Spark from the start."""

Item = TypeVar("Item")


class Change(NamedTuple):
    """A row that is written, or with the value None deleted."""

    table: str
    key: str
    value: dict[str, Any] | None


def storm(
    spark: SparkSession | None,
    warehouse: Path | str,
    *,
    changes: int,
    batches: int,
    seed: int = 1,
    say: Callable[[str], None] = print,
) -> int:
    """Write random changes in batches, with a run after each batch. The number of rows that differ at the end.

    The changes of a batch are written in one to three commits for each table; a commit has the last change of a key.
    Batches take turns with ``LIMITS``.
    """
    dice = random.Random(seed)  # noqa: S311  no secret
    app = Application.open(MANIFESTS, warehouse=warehouse, spark=spark)
    for number, batch in enumerate(cut(dice, list(random_changes(dice, changes)), batches), 1):
        commits = cut(dice, batch, min(dice.randint(1, 3), len(batch)))
        wrote = seconds(partial(write, app, commits))
        ran = seconds(set_limits(app, **LIMITS[number % len(LIMITS)]).run)
        say(
            f"batch {number} of {batches}: {len(batch):,} changes in {len(commits)} commits,"
            f" written in {wrote:.1f} s, joined in {ran:.1f} s"
        )
    differing = sum(judged(app, join, say) for join in ("inner", "left"))
    say(f"differing rows: {differing}")
    return differing


def random_changes(dice: random.Random, count: int) -> Iterator[Change]:
    """Changes of random keys, a tenth of them deletions. Few values, so that some writes do not change a row."""
    for _ in range(count):
        number = dice.randrange(LEFT_KEYS + RIGHT_KEYS)
        deleted = dice.random() < 0.1
        row: dict[str, Any] = {"n": dice.randrange(10)}
        if number < RIGHT_KEYS:
            yield Change("products", f"P{number}", None if deleted else row)
        else:
            fk = None if dice.random() < 0.02 else f"P{dice.randrange(RIGHT_KEYS)}"
            yield Change("orders", f"O{number}", None if deleted else {"fk": fk, **row})


def cut(dice: random.Random, items: Sequence[Item], parts: int) -> list[Sequence[Item]]:
    """The items in ``parts`` random parts, none of them empty."""
    places = sorted(dice.sample(range(1, len(items)), parts - 1))
    return [items[start:end] for start, end in zip([0, *places], [*places, len(items)], strict=True)]


def write(app: Application, commits: Sequence[Sequence[Change]]) -> None:
    for changes in commits:
        for table in ("orders", "products"):
            app.table(table).put({change.key: change.value for change in changes if change.table == table})


def seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def judged(app: Application, join: str, say: Callable[[str], None]) -> int:
    """The number of rows in which a join's result, or its folded channel, differs from the join of the tables."""
    plan = app.plan.join(join)
    if not isinstance(plan, ForeignKeyJoinPlan):
        raise TypeError(join)
    expected = joined(app, plan.type)
    result = app.delta.read(app.spark, plan.result)
    of_result, of_channel = (differing(expected, rows) for rows in (result, folded(app.channel(plan.channel).stored)))
    say(f"{join}: {expected.count():,} rows; {of_result} differ in the result, {of_channel} in the channel folded")
    return of_result + of_channel


def joined(app: Application, join_type: str) -> DataFrame:
    """The expected rows, joined by Spark."""
    orders = app.delta.read(app.spark, "orders").select("key", F.col("value").alias("left"))
    orders = orders.withColumn("fk", F.concat(F.lit('"'), F.get_json_object("left", "$.fk"), F.lit('"')))
    products = app.delta.read(app.spark, "products").select(F.col("key").alias("fk"), F.col("value").alias("right"))
    return orders.join(products, "fk", join_type).select("key", "left", "right")


def folded(channel: DataFrame) -> DataFrame:
    """The rows that the records of a channel add up to."""
    last = channel.groupBy("key").agg(F.max_by(F.struct("kind", "left", "right"), "offset").alias("last"))
    return last.where("last.kind = 'value'").select("key", "last.left", "last.right")


def differing(expected: DataFrame, actual: DataFrame) -> int:
    """The number of rows that are missing, additional or different."""
    pairs = expected.alias("e").join(actual.alias("a"), F.expr("e.key = a.key"), "full_outer")
    different = pairs.where("NOT (e.key <=> a.key AND e.left <=> a.left AND e.right <=> a.right)").count()
    return different + actual.count() - actual.select("key").distinct().count()


def main() -> None:
    parser = argparse.ArgumentParser(description="Random changes on both sides of joins, judged by Spark's own join.")
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(storm(None, Path(folder), **vars(arguments), say=partial(print, flush=True)) != 0)


if __name__ == "__main__":
    main()
