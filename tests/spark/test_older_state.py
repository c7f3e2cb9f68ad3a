"""State, logs and checkpoints of an older version go on.

``older_state.tar.xz`` holds a warehouse with every shape and its manifests. Two waves of ``shapes.py`` were processed
in it, and a third one was only written, at commit ce11bc3, which wrote tables and logs by other modules.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application
from kaspr_delta.runtime.resources import run_of
from tests.spark.shapes import LAST, outcome, write_wave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE = Path(__file__).with_name("older_state.tar.xz")
WRITTEN = 3


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_warehouse_of_an_older_version_goes_on(spark: SparkSession, tmp_path: Path) -> None:
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
        write_wave(app, LAST)
        app.run()
    assert outcome(older) == outcome(newer)
    assert checkpoints(older) == begun


def checkpoints(app: Application) -> dict[str, int]:
    """The number of starts in each log: a rebuild makes another one."""
    logs = [run_of(app.delta, app.plan, ref).resource.log_table for ref in app.plan.runs]
    return {log: app.delta.read(app.spark, log).where("start IS NOT NULL").count() for log in logs}
