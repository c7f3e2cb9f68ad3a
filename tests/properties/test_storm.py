"""Thousands of changes in a batch, and many subscribers for each right row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.properties.storm import storm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOW = [pytest.mark.slow, pytest.mark.timeout(7_200)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("changes", "batches"), [pytest.param(5_000, 2, marks=pytest.mark.slow), pytest.param(200_000, 40, marks=SLOW)]
)
def test_after_a_storm_results_and_channels_equal_sparks_own_join(
    spark: SparkSession, tmp_path: Path, changes: int, batches: int
) -> None:
    assert storm(spark, tmp_path, changes=changes, batches=batches) == 0
