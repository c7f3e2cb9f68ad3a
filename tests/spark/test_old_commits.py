"""Resources that start late, or again, over topics and channels whose old commits were removed from the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.runtime.run_events import GapFilled, RunEvent
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.native.log_cleaning import clean_followed_log
from kaspr_delta.storage.plan_tables import tables_of
from tests.folders import delta_rs
from tests.manifests import opened
from tests.spark import shapes
from tests.spark.test_gaps_of_a_catalog import IN_PAIRS, MANIFESTS, assert_processed, produce

pytestmark = pytest.mark.further

READERS = {
    *("join/views-of-known", "join/views-of-all", "join/patient-views", "join/views-by-country", "join/views-by-page"),
    *("join/view-details", "join/bought-after-view", "table/profiles", "table/views-per-country"),
    *("table/views-per-minute", "table/spent", "table/dearest"),
}


def remove_commits(app: Application) -> None:
    """Leave only the newest commit in the log of each topic and channel, as if all were old."""
    delta = delta_rs(app.delta.namespace)
    for _, table, layout in tables_of(app.plan):
        if layout.only_appended:
            delta.open(table).create_checkpoint()
            folder = delta.folder(table)
            assert isinstance(folder, LocalFolder)
            clean_followed_log(folder, -60.0, None)


def run_and_list_gaps(app: Application) -> set[str]:
    """Run; the resources that went on after a gap."""
    events: list[RunEvent] = []
    app.run(listener=events.append)
    return {str(event.resource) for event in events if isinstance(event, GapFilled) and not event.rebuilt}


@pytest.mark.slow
def test_every_shape_reads_each_record_once_whether_or_not_its_commit_was_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All start late. In later waves they start again, and the commit of their last batch is gone too."""
    left: dict[str, Any] = {}
    for name in ("whole", "cleaned"):
        app = Application.open(shapes.SHAPES, warehouse=tmp_path / name, spark=spark)
        for wave in range(1, shapes.LAST_WAVE + 1):
            shapes.write_wave(app, wave)
            if name == "cleaned":
                remove_commits(app)
            gaps = run_and_list_gaps(app)
            assert gaps == (READERS if name == "cleaned" else set())
        left[name] = shapes.outcome(app)
    assert left["cleaned"] == left["whole"]


def test_agents_read_each_record_once_and_in_order_although_its_commit_was_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = opened(spark, tmp_path, "clicks", MANIFESTS, tmp_path / "wh")
    readers = {"agent/remember", "agent/copy", "table/clicks-per-page"}
    for first in range(0, 6, 2):
        produce(app, range(first, first + 2))
        remove_commits(app)
        assert run_and_list_gaps(app) == readers
        assert_processed(app, range(first + 2))
    assert run_and_list_gaps(app) == set()
    produce(app, range(6, 7))
    assert run_and_list_gaps(app) == set()
    assert_processed(app, range(7))
    assert [record["value"]["number"] for record in app.topic("clicks").records()] == [
        number for number in range(7) for _ in range(2)
    ]


@pytest.mark.slow
def test_records_that_wait_for_others_are_read_again_from_removed_commits(spark: SparkSession, tmp_path: Path) -> None:
    app = opened(spark, tmp_path, "clicks", IN_PAIRS, tmp_path / "wh")
    given: list[int] = []
    for number in range(3):
        app.topic("clicks").produce([{"key": "a", "value": {"number": number}}])
        remove_commits(app)
        app.run()
        given += [one for record in app.topic("paired").records()[-1:] for one in record["value"]]
    paired = [record["value"] for record in app.topic("paired").records()]
    assert [number for pair in paired for number in (pair if isinstance(pair, list) else [pair])] == [0, 1, 2]
