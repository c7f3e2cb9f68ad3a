"""An application whose tables are named in a catalog, and not placed in a folder, as on Unity Catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFESTS = Path(__file__).parents[2] / "bundles" / "order-system"


def test_the_application_runs_on_a_catalog_and_a_volume(spark: SparkSession, catalog: str) -> None:
    app = Application.open(MANIFESTS, warehouse=catalog, spark=spark)
    app.table("products").put({"P1": {"name": "Widget", "price": 2}})
    app.topic("raw-orders").produce([{"key": "O1", "value": {"order_id": "O1", "product_id": "P1", "quantity": 4}}])
    app.run()

    again = Application.open(warehouse=catalog, spark=spark)
    assert again.topic("enriched-orders").records()[0]["value"]["total"] == 8
    assert again.plan.application == "order-system"
    assert not again.run().resources
