"""Extractors that build a key or fall back to another field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
