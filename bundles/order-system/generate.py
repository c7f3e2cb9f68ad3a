"""Orders and products for this application: always the same for the same arguments.

As a script it writes JSON lines, ready for ``kaspr-delta produce``::

    python bundles/order-system/generate.py products --count 40 | kaspr-delta produce raw-products
    python bundles/order-system/generate.py orders --count 300 --products 40 | kaspr-delta produce raw-orders
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from typing import Any

Record = dict[str, Any]

FIRST_PRODUCT = 100
START = 1_767_225_600_000  # 2026-01-01T00:00:00Z in milliseconds: event time must not depend on the day of the run
SECOND = 1_000

MATERIALS = ("Oak", "Steel", "Linen", "Cork", "Copper", "Glass", "Walnut", "Wool")
THINGS = ("Lamp", "Chair", "Kettle", "Shelf", "Notebook", "Mug", "Blanket", "Clock", "Tray", "Basket")
EDITIONS = ("", " Mini", " Plus", " XL", " Classic")


def products(n: int, seed: int = 1) -> Iterator[Record]:
    """The catalogue: ``n`` products P100, P101, … with a name, a category and a price."""
    dice = random.Random(f"products {seed}")  # noqa: S311  example data, no secret
    for index in range(n):
        material = MATERIALS[index % len(MATERIALS)]
        thing = THINGS[(index // len(MATERIALS)) % len(THINGS)]
        edition = EDITIONS[(index // (len(MATERIALS) * len(THINGS))) % len(EDITIONS)]
        key = product_key(index)
        yield {
            "key": key,
            "value": {
                "product_id": key,
                "name": f"{material} {thing}{edition}",
                "category": thing.lower(),
                "price": round(dice.randrange(4, 400) / 2 + dice.choice((0.0, 0.25, 0.45)), 2),
            },
            "timestamp": START + index,
        }


def orders(n: int, products: int, seed: int = 1) -> Iterator[Record]:
    """``n`` orders O1, O2, …, one a second, over the first ``products`` products; some sell far more than others."""
    dice = random.Random(f"orders {seed}")  # noqa: S311  example data, no secret
    for number in range(1, n + 1):
        key = f"O{number}"
        yield {
            "key": key,
            "value": {
                "order_id": key,
                "customer_id": f"C{dice.randrange(1, max(2, n // 4))}",
                "product_id": product_key(int(products * dice.random() ** 2)),
                "quantity": dice.choices((1, 2, 3, 5, 10), weights=(50, 25, 12, 8, 5))[0],
            },
            "timestamp": START + number * SECOND,
        }


def product_key(index: int) -> str:
    """The key of the product at a place in the catalogue, counting from 0."""
    return f"P{FIRST_PRODUCT + index}"


def main() -> None:
    """Write the records asked for to standard output."""
    parser = argparse.ArgumentParser(description="Write example records as JSON lines.")
    parser.add_argument("what", choices=("orders", "products"))
    parser.add_argument("--count", type=int, default=300, help="how many records")
    parser.add_argument("--products", type=int, default=40, help="how many products the orders choose from")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other records")
    wish = parser.parse_args()
    records = orders(wish.count, wish.products, wish.seed) if wish.what == "orders" else products(wish.count, wish.seed)
    sys.stdout.writelines(json.dumps(record) + "\n" for record in records)


if __name__ == "__main__":
    main()
