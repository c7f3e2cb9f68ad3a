"""Topics by pattern, ``take``, windows, changelogs, retention and tasks: one application, a few runs for all tests."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, UsageError
from kaspr_delta.errors import SerializationError
from tests.continuous import running, wait_until
from tests.spark.channels import values_of

MINUTE = 60_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def open_app(spark: SparkSession, folder: Path) -> Application:
    return Application.open(Path(__file__).parent / "applications" / "lab.yaml", warehouse=folder, spark=spark)


def by_minute(app: Application, table: str) -> dict[tuple[str, int], int]:
    rows = app.table(table).rows()
    return {(key.key, (key.window_start - EPOCH) // timedelta(minutes=1)): value for key, value in rows}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def first(spark: SparkSession, folder: Path) -> Application:
    """The application after two runs."""
    app = open_app(spark, folder)
    app.topic("events").produce([{"value": {"topic": f"region-{name}", "n": n}} for n, name in enumerate("abab")])
    app.topic("clicks").produce([{"key": f"K{n}", "value": n} for n in range(7)])
    at = [(10, "x"), (70, "x"), (50, "x"), (75, "y"), (30, "x")]
    app.topic("ticks").produce(
        [{"value": value, "timestamp": second * 1_000, "partition": 0} for second, value in at]
        + [{"value": "behind", "timestamp": 5_000, "partition": 1}]
    )
    app.topic("fills").produce(
        [{"value": {"user": user, "prefs": prefs}} for user, prefs in [("u1", {"a": 1}), ("u2", 2), ("u1", {"a": 2})]]
        + [{"value": {"user": None, "prefs": 1}}]
    )
    app.topic("lab-app-cache-changelog").produce(
        [{"key": "old", "value": 1, "timestamp": 0}, {"key": "new", "value": 2}, {"key": "gone", "value": None}]
    )
    app.sql("""INSERT INTO cache (key, value) VALUES ('"by sql"', '3')""")
    app.run()
    app.topic("events").produce([{"value": {"topic": "region-c", "n": 10}}, {"value": {"topic": "region.a", "n": 1}}])
    app.topic("ticks").produce([{"value": "x", "timestamp": 4 * MINUTE, "partition": 0}])
    app.topic("fills").produce([{"value": {"user": "u2", "prefs": None}}])
    app.run()
    return app


def test_a_pattern_takes_up_topics_that_functions_made_in_the_same_run(first: Application) -> None:
    assert first.table("by-region").to_dict() == {"region-a": 2, "region-b": 4, "region-c": 10}
    assert values_of(first, "region-a") == [0, 2]


def test_a_topic_that_would_share_a_delta_table_is_refused(first: Application) -> None:
    (letter,) = first.dead_letters("agent/router")
    assert "topic 'region.a' would share the Delta name 'topic__region_a' with topic 'region-a'" in letter["detail"]


def test_events_are_taken_in_groups_and_a_run_leaves_none_waiting(first: Application) -> None:
    groups = [[0, 1, 2], [3, 4, 5], [6]]
    assert values_of(first, "batches") == [[group, [f"K{n}" for n in group]] for group in groups]


def test_events_count_in_the_windows_of_their_time_unless_they_are_late(first: Application) -> None:
    # 50 s and 30 s come after 70 s: late for the first minute of ``minutes``, within the grace of ``closed-minutes``.
    counted = [[1, 1, 1], [1, 1, 1], [1, 2, 3], [1, 1, 1], [1, 3, 4], [1, 1, 1], [1, 1, 1]]
    assert values_of(first, "counted") == counted
    ones = [*(("x", minute) for minute in (-1, 1, 3, 4)), ("y", 0), ("y", 1), ("behind", -1), ("behind", 0)]
    assert by_minute(first, "sliding") == {("x", 0): 4, **dict.fromkeys(ones, 1)}


def test_rows_of_a_window_expire_by_the_stream_time_of_their_partition(first: Application) -> None:
    assert by_minute(first, "minutes") == {("x", 1): 1, ("y", 1): 1, ("x", 4): 1, ("behind", 0): 1}


def test_a_table_with_emit_close_gets_only_the_last_value_of_each_window(first: Application) -> None:
    assert by_minute(first, "closed-minutes") == {("x", 0): 3, ("x", 1): 1, ("y", 1): 1}
    feed = first.delta.changes(first.spark, "closed_minutes").select("_change_type").distinct().collect()
    assert [row["_change_type"] for row in feed] == ["insert"]


def test_windows_are_columns_in_sql_and_in_the_dataframe_of_a_table(first: Application) -> None:
    assert first.table("minutes").df.columns == ["key", "window_start", "window_end", "value", "timestamp"]
    rows = first.sql("SELECT key, value, window_start, window_end FROM v_minutes ORDER BY window_start").collect()
    assert [row["window_end"] - row["window_start"] for row in rows] == [timedelta(minutes=1)] * 4


def test_only_agents_write_a_table_with_windows(first: Application) -> None:
    for write in (
        lambda: first.table("minutes").put({"x": 1}),
        lambda: first.topic("lab-app-minutes-changelog").produce([{"key": "x", "value": 1}]),
    ):
        with pytest.raises((UsageError, SerializationError), match="has windows"):
            write()


def test_records_sent_to_a_changelog_change_its_table_and_reach_its_readers(first: Application) -> None:
    assert first.table("prefs").to_dict() == {"u1": {"a": 2}}
    assert sorted(values_of(first, "pref-changes"), key=str) == [["u1", {"a": 2}], ["u2", 2], ["u2", None]]
    records = first.topic("lab-app-prefs-changelog").records()
    assert [(record["key"], record["value"]) for record in records][-1] == ("u2", None)
    (letter,) = first.dead_letters("agent/fill")
    assert "None is no key" in letter["detail"]


def test_retention_removes_old_rows_and_keeps_new_rows_without_a_time(first: Application) -> None:
    assert first.table("cache").to_dict() == {"new": 2, "by sql": 3}


def test_the_retention_of_a_changelog_sets_the_file_retention_of_its_table(first: Application) -> None:
    properties = {row["key"]: row["value"] for row in first.sql("SHOW TBLPROPERTIES prefs").collect()}
    assert properties["delta.deletedFileRetentionDuration"] == "interval 86400000 milliseconds"


def test_metrics_add_up_over_all_runs(first: Application) -> None:
    counted = {(metric.name, *metric.labels.values()): metric.value for metric in first.status().metrics}
    assert counted["table_operations", "by-region", "keys_updated"] == 5
    assert counted["table_operations", "by-region", "keys_retrieved"] == 5
    assert counted["table_operations", "minutes", "late_dropped"] == 2
    assert counted["messages_received_per_topic", "clicks"] == 7
    assert counted["topic_messages_sent", "batches"] == 3


@pytest.fixture(scope="module")
def later(first: Application) -> Application:
    """The application after one run of the tasks ``report`` and ``broken``."""
    first.run(only=["task/report", "task/broken"])
    return first


def test_a_task_reads_tables_and_sends(later: Application) -> None:
    assert values_of(later, "reports") == [{"u1": {"a": 2}}]
    assert values_of(later, "beats") == []


def test_a_task_that_fails_is_a_dead_letter_and_writes_nothing(later: Application) -> None:
    (letter,) = later.dead_letters("task/broken")
    assert letter["source"] == "task/broken"
    assert "only agents write tables" in letter["detail"]
    assert later.table("prefs").get("x") is None


@pytest.mark.slow
def test_a_continuous_run_follows_new_topics_runs_tasks_and_times_out_take(later: Application) -> None:
    app = later
    only = ["agent/router", "agent/count-regions", "agent/buffer", "task/report", "task/beat"]
    with running(app, every="500ms", only=only) as failures:
        app.topic("events").produce([{"value": {"topic": "region-late", "n": 7}}])
        app.topic("clicks").produce([{"key": "one", "value": 1}])
        wait_until(lambda: len(values_of(app, "batches")) > 3, failures)
        wait_until(lambda: app.table("by-region").get("region-late") == 7, failures)
    assert failures == []
    assert values_of(app, "batches")[3:] == [[[1], ["one"]]]
    assert app.table("by-region").get("region-late") == 7
    assert values_of(app, "reports") == [{"u1": {"a": 2}}] * 2
    assert values_of(app, "beats") == list(range(len(values_of(app, "beats"))))
    assert len(values_of(app, "beats")) > 1
