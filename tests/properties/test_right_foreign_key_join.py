"""Joins with a foreign key on the right: random histories of orders and details, compared with a dictionary.

A history has the orders and details of one shop, whose number is part of their keys. All shops are in one application:
many take no more runs than one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application

pytestmark = pytest.mark.further

MANIFESTS = Path(__file__).with_name("right_foreign_key.yaml")
# Of each shop. There are also orders and details without an order id.
ORDERS = 3
DETAILS = 6

Detail = tuple["str | None", "str | None", "int | None"]
"""An id, an order's id and a quantity; all None where an order has no details."""
NO_DETAIL: Detail = (None, None, None)


@dataclass
class Moment:
    """Changes that are written together: rows of details (None: deleted), then orders, each a record."""

    details: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    orders: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Shops:
    """Random histories. ``expected``: the details that an order's record is joined with, by its number."""

    seeds: Sequence[int]
    expected: dict[int, Counter[Detail]] = field(default_factory=dict)
    details: dict[str, Detail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._dice = {seed: random.Random(seed) for seed in self.seeds}  # noqa: S311  no secret

    def next(self) -> Moment:
        """Draw changes of some of the shops, also several of one shop, and apply them to the model."""
        moment = Moment()
        for seed, dice in self._dice.items():
            for number in dice.sample(range(DETAILS), dice.choice([0, 1, 1, 2, 4])):
                self._change(moment, seed, f"{seed}/D{number}")
            for _ in range(dice.choice([0, 1, 2])):
                self._order(moment, seed)
        return moment

    def _change(self, moment: Moment, seed: int, detail: str) -> None:
        dice = self._dice[seed]
        if dice.random() < 0.2:  # also a row that does not exist
            moment.details[detail] = None
            self.details.pop(detail, None)
            return
        order, quantity = self._order_id(seed), dice.randrange(3)
        moment.details[detail] = {"id": detail, "order_id": order, "quantity": quantity}
        self.details[detail] = detail, order, quantity

    def _order(self, moment: Moment, seed: int) -> None:
        order = self._order_id(seed)
        if self._dice[seed].random() < 0.1:  # a tombstone is joined with nothing
            moment.orders.append({"key": order, "value": None})
            return
        number = len(self.expected)
        moment.orders.append({"key": order, "value": {"number": number, "shop": seed}})
        referring = [detail for detail in self.details.values() if order is not None and detail[1] == order]
        self.expected[number] = Counter(referring or [NO_DETAIL])

    def _order_id(self, seed: int) -> str | None:
        number = self._dice[seed].randrange(ORDERS + 1)
        return f"{seed}/O{number}" if number < ORDERS else None


def joined(app: Application) -> dict[int, Counter[Detail]]:
    """The details that an order's record was joined with, by the order's number."""
    found: dict[int, Counter[Detail]] = {}
    for record in app.channel("orders-with-details-channel").records():
        right = record["value"]["right"] or {}
        detail = right.get("id"), right.get("order_id"), right.get("quantity")
        found.setdefault(record["value"]["left"]["number"], Counter())[detail] += 1
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seeds", "runs"),
    [(25, 2), pytest.param(1_000, 8, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])],
)
def test_each_order_is_joined_with_the_details_that_refer_to_it_when_it_comes(
    spark: SparkSession, tmp_path: Path, seeds: int, runs: int
) -> None:
    """Each run has three moments. The records of 25 histories are joined on the driver, those of 1,000 by workers."""
    app = Application.open(MANIFESTS, warehouse=tmp_path, spark=spark)
    shops = Shops(range(seeds))
    app.run()
    for _ in range(runs):
        for _ in range(3):
            moment = shops.next()
            app.table("order-details").put(moment.details)
            app.topic("orders").produce(moment.orders)
        app.run()
    found = joined(app)
    assert found.keys() == shops.expected.keys()
    differing = {number: (found[number], rows) for number, rows in shops.expected.items() if found[number] != rows}
    assert differing == {}
    assert app.dead_letters() == []


def test_histories_have_orders_with_none_one_and_many_details() -> None:
    shops = Shops(range(50))
    for _ in range(12):
        shops.next()
    sizes = Counter(0 if NO_DETAIL in rows else rows.total() for rows in shops.expected.values())
    assert len(shops.expected) > 400
    assert min(sizes[size] for size in range(4)) > 20
