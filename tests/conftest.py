"""The one Spark session, and applications on warehouses of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
OrderSystem = Callable[[], Application]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever lies in tests/spark needs the JVM."""
    for item in items:
        if Path(__file__).parent / "spark" in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The session all tests share; the first test that needs it starts it."""
    from kaspr_delta.runtime.session import spark_session

    return spark_session(tmp_path_factory.mktemp("spark") / "spark.log")


@pytest.fixture
def order_system(spark: SparkSession, tmp_path: Path) -> OrderSystem:
    """Open the order-enrichment application on this test's warehouse; again for a restart."""
    return lambda: Application.open(ROOT / "bundles" / "order-system", warehouse=tmp_path / "wh", spark=spark)
