"""Random changes on both sides, against two dictionaries and a join recomputed from them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFESTS = Path(__file__).parents[1] / "spark" / "applications" / "joins.yaml"
LEFT_KEYS = [f"L{n}" for n in range(40)]
RIGHT_KEYS = ["P1", "P10", "P2", 1, "1", "ü:\x00", *(f"R{n}" for n in range(6))]
CHANGES = 40
BATCHES = 3

Table = dict[Any, Any]


def change_left(dice: random.Random, rows: Table) -> None:
    """Insert, update (also with the same value), another foreign key, no foreign key, delete."""
    key = dice.choice(LEFT_KEYS)
    if dice.random() < 0.2:
        rows.pop(key, None)
        return
    product = None if dice.random() < 0.1 else dice.choice(RIGHT_KEYS)
    rows[key] = {"product_id": product, "quantity": dice.randrange(2)}


def change_right(dice: random.Random, rows: Table) -> None:
    key = dice.choice(RIGHT_KEYS)
    if dice.random() < 0.3:
        rows.pop(key, None)
    else:
        rows[key] = {"name": dice.randrange(3)}


def joined(left: Table, right: Table, *, outer: bool) -> Table:
    """What the join should be: the naive model."""
    rows = {key: {"left": value, "right": right.get(value["product_id"])} for key, value in left.items()}
    return {key: row for key, row in rows.items() if outer or row["right"] is not None}


def fold(records: list[dict[str, Any]]) -> Table:
    rows = {record["key"]: record["value"] for record in records}
    return {key: value for key, value in rows.items() if value is not None}


def put_difference(app: Application, name: str, before: Table, after: Table) -> None:
    gone = [(key, None) for key in before if key not in after]
    app.table(name).put([*gone, *after.items()])


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_results_and_channels_are_the_recomputed_join_after_every_batch(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)  # noqa: S311  no secret
    left: Table = {}
    right: Table = {}
    app = Application.open(MANIFESTS, warehouse=tmp_path, spark=spark)
    before: dict[str, Table] = {"inner": {}, "left": {}}
    seen = dict.fromkeys(before, 0)
    for _ in range(BATCHES):
        old_left, old_right = dict(left), dict(right)
        for _ in range(CHANGES):
            change_left(dice, left)
            if dice.random() < 0.3:
                change_right(dice, right)
        put_difference(app, "orders", old_left, left)
        put_difference(app, "products", old_right, right)
        if dice.random() < 0.3:
            app = Application.open(MANIFESTS, warehouse=tmp_path, spark=spark)  # a restart
        app.run(only=["join/inner", "join/left"])
        for join, channel, outer in (("inner", "inner-channel", False), ("left", "left-joined", True)):
            expected = joined(left, right, outer=outer)
            assert app.join(join).to_dict() == expected, (seed, join)
            records = app.channel(channel).records()
            assert fold(records) == expected, (seed, channel)
            changed = {key for key in {*before[join], *expected} if before[join].get(key) != expected.get(key)}
            assert sorted(record["key"] for record in records[seen[join] :]) == sorted(changed), (seed, channel)
            before[join], seen[join] = expected, len(records)
