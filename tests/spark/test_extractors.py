"""Extractors that build a key or fall back to another field, and the number of their calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.storage.limits import Size
from tests.limits import set_limits
from tests.manifests import opened

Names = dict[Any, str]


@pytest.fixture(scope="module")
def names(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Names]:
    """By join, the name of the product found for each order."""
    manifests = Path(__file__).parent / "applications" / "extractors.yaml"
    app = Application.open(manifests, warehouse=tmp_path_factory.mktemp("wh"), spark=spark)
    found = {"eu:P1": "European", "None:P1": "Nowhere", "S9": "By sku", "P1": "Widget"}
    app.table("products").put({key: {"name": name} for key, name in found.items()})
    app.table("orders").put(
        {
            "composite": {"region": "eu", "product_id": "P1"},
            "partial": {"product_id": "P1"},
            "empty": {"product_id": "", "sku": "S9"},
            "zero": {"product_id": 0, "sku": "S9"},
            "absent": {"sku": "S9"},
            "neither": {"quantity": 1},
        }
    )
    app.run()
    return {
        join: {key: row["right"]["name"] for key, row in app.join(join).to_dict().items()}
        for join in ("composite", "fallback")
    }


def test_s0_7_composite_keys_are_texts_also_with_a_missing_part(names: dict[str, Names]) -> None:
    assert names["composite"] == {"composite": "European", "partial": "Nowhere"}


def test_s0_8_the_fallback_takes_over_for_anything_falsy(names: dict[str, Names]) -> None:
    assert names["fallback"] == {
        "composite": "Widget",
        "partial": "Widget",
        "empty": "By sku",
        "zero": "By sku",
        "absent": "By sku",
    }


COUNTED = """
KasprApp/counted: {{}}
KasprTable/orders: {{}}
KasprTable/products: {{}}
KasprJoin/joined:
  leftTable: orders
  rightTable: products
  extractor:
    python: |
      def product_of(order):
          with open({calls!r}, "a") as calls:
              calls.write("called\\n")
          return order["product"]
"""


@pytest.mark.slow
def test_a_large_batch_calls_the_extractor_once_for_each_changed_row(spark: SparkSession, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    app = opened(spark, tmp_path, "counted", COUNTED.format(calls=str(calls)))
    app.table("products").put({"P": {"price": 1}})
    app.table("orders").put({str(number): {"product": "P"} for number in range(9)})
    app.run()
    calls.write_text("")
    none = Size(0, 1 << 20)
    set_limits(app, few=none, small_batch=none, looked_up=none, changes=none)
    app.table("orders").put({str(number): {"product": "P", "quantity": 2} for number in range(5)})
    app.run()
    assert len(calls.read_text().splitlines()) == 5
    assert app.join("joined").to_dict()["4"]["left"]["quantity"] == 2
