from __future__ import annotations

import platform
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.versions import TRIED, Versions, refuse_old_databricks

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("versions", "shown", "is_tried"),
    [
        (Versions("4.0.1", "4.0.1", "3.12.3"), "Spark 4.0.1, Delta 4.0.1, Python 3.12.3", True),
        (Versions("4.0.0", None, "3.12.3"), "Spark 4.0.0, Python 3.12.3", True),
        (Versions("3.5.2", None, "3.12.3"), "Spark 3.5.2, Python 3.12.3", False),
        (Versions("4.3.0", "4.4.1", "3.12.0"), "Spark 4.3.0, Delta 4.4.1, Python 3.12.0", False),
        (Versions("4.2.0", "4.3.0", "3.11.7"), "Spark 4.2.0, Delta 4.3.0, Python 3.11.7", False),
    ],
)
def test_versions_that_no_lane_runs_together_give_a_warning(versions: Versions, shown: str, *, is_tried: bool) -> None:
    assert str(versions) == shown
    warning = f"{shown} were never tried together. The tests run on Spark 4.0 with Delta 4.0"
    assert versions.warning is None if is_tried else str(versions.warning).startswith(warning)


def test_the_delta_version_is_left_out_on_spark_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    assert str(Versions.with_spark("4.0.0")) == f"Spark 4.0.0, Python {platform.python_version()}"


def test_tried_versions_are_those_that_the_lanes_install() -> None:
    """The lanes have the older combinations, the package's extra ``local`` has the newest one."""
    pins = re.compile(r"(?:pyspark|delta-spark)(?:\[\w+\])?==(\d+\.\d+)")
    lanes = {tuple(pins.findall(file.read_text())) for file in (ROOT / "lanes").glob("spark-*.txt")}
    local = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("local = "))
    assert {(spark, delta) for spark, delta, _ in TRIED} == {*lanes, tuple(pins.findall(local))}


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ("client.3.2", "environment version 3 of serverless compute"),
        ("client.4.9", ""),
        ("client.5", ""),
        ("16.4", "Databricks Runtime 16.4"),
        ("17.3", ""),
        ("18.x-photon", ""),
        ("played", ""),
    ],
)
def test_compute_of_databricks_with_spark_3_is_refused(
    monkeypatch: pytest.MonkeyPatch, version: str, refused: str
) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", version)
    with pytest.raises(SetupError, match=refused) if refused else nullcontext():
        refuse_old_databricks()
