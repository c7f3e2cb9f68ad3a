"""Thousands of random changes in a batch, and many subscribers for each right row."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.storage.limits import Limits, Size
from tests.limits import set_limits
from tests.properties.shown import JOINS, MANIFESTS, JoinReader

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


def storm(spark: SparkSession, warehouse: Path | str, *, changes: int, batches: int) -> int:
    """Write random changes in batches, with a run after each batch. The number of rows that differ at the end.

    The changes of a batch are written in one to three commits for each table; a commit has the last change of a key.
    Batches take turns with ``LIMITS``.
    """
    dice = random.Random(1)  # noqa: S311  no secret
    app = Application.open(MANIFESTS, warehouse=warehouse, spark=spark)
    for number, batch in enumerate(cut(dice, list(random_changes(dice, changes)), batches), 1):
        for commit in cut(dice, batch, min(dice.randint(1, 3), len(batch))):
            for table in ("orders", "products"):
                app.table(table).put({change.key: change.value for change in commit if change.table == table})
        set_limits(app, **LIMITS[number % len(LIMITS)]).run()
    return sum(JoinReader(app, join).differing() for join in JOINS)


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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(("changes", "batches"), [(5_000, 2), (200_000, 40)])
def test_after_a_storm_results_and_channels_equal_the_join_of_the_tables(
    spark: SparkSession, tmp_path: Path, changes: int, batches: int
) -> None:
    assert storm(spark, tmp_path, changes=changes, batches=batches) == 0
