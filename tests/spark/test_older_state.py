"""Runs go on with the state, logs and checkpoints of an older version.

``older_state.tar.xz`` holds a warehouse with every shape and its manifests. Commit ce11bc3, whose modules for
tables and logs were others, processed two waves of ``shapes.py`` in it, and only wrote a third one.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application
from kaspr_delta.runtime.resources import run_of
from tests.spark.shapes import LAST_WAVE, outcome, write_wave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE = Path(__file__).with_name("older_state.tar.xz")
WRITTEN = 3


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_warehouse_of_an_older_version_gives_the_outcome_of_a_new_one(spark: SparkSession, tmp_path: Path) -> None:
    with tarfile.open(STATE) as kept:
        kept.extractall(tmp_path / "older", filter="data")
    manifests = tmp_path / "older" / "every-shape.yaml"
    older = Application.open(manifests, warehouse=tmp_path / "older" / "wh", spark=spark)
    newer = Application.open(manifests, warehouse=tmp_path / "newer", spark=spark)
    for wave in range(1, WRITTEN):
        write_wave(newer, wave)
        newer.run()
    write_wave(newer, WRITTEN)
    begun = checkpoints(older)
    for app in (older, newer):
        app.run()
        write_wave(app, LAST_WAVE)
        app.run()
    assert outcome(older) == outcome(newer)
    assert checkpoints(older) == begun


def checkpoints(app: Application) -> dict[str, int]:
    """The number of starts in each log. A rebuild adds one."""
    logs = [run_of(app.delta, app.plan, ref).resource.log_table for ref in app.plan.runs]
    return {log: app.delta.read(app.spark, log).where("start IS NOT NULL").count() for log in logs}
