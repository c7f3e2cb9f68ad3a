"""Topics of a catalog with a gap in the change feed: the platform compacted them and removed the old files.

Records are then read from the rows of the topic. Each is processed once, in order, even if it was rewritten.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.runtime.run_events import GapFilled, RunEvent
from kaspr_delta.storage.limits import Size
from tests.limits import set_limits
from tests.manifests import opened
from tests.spark.channels import values_of
from tests.unity_catalog import ON_UNITY_CATALOG

pytestmark = pytest.mark.skipif(ON_UNITY_CATALOG in os.environ, reason="it lets nobody compact a table or remove files")

MANIFESTS = """\
KasprApp/clicks: {}
KasprTable/seen: {name: seen}
KasprTable/clicks-per-page: {name: clicks-per-page, from: {topic: clicks}, count: {}}
KasprAgent/remember:
  input: {topic: {name: clicks}}
  processors:
    pipeline: [append]
    operations:
      - name: append
        tables: [{name: seen, paramName: seen}]
        map:
          python: |
            def append(value, seen):
                key = context["event"].key
                seen[key] = seen.get(key, []) + [value["number"]]
KasprAgent/copy:
  input: {topic: {name: clicks}}
  output: {topics: [{name: copied}]}
  processors:
    pipeline: [same]
    operations:
      - name: same
        map: {python: "def same(value): return value"}
"""
IN_PAIRS = """\
KasprApp/clicks: {}
KasprAgent/pairs:
  input: {topic: {name: clicks}, take: {max: 2, within: 1h}}
  output: {topics: [{name: paired}]}
  processors:
    pipeline: [numbers]
    operations:
      - name: numbers
        map: {python: "def numbers(values): return [value['number'] for value in values]"}
"""
AGENTS = {"agent/remember", "agent/copy", "table/clicks-per-page"}
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture
def clicks(spark: SparkSession, catalog: str, tmp_path: Path) -> Callable[[], Application]:
    """A function that opens the application. A second call restarts it."""
    return lambda: opened(spark, tmp_path, "clicks", MANIFESTS, catalog)


@contextmanager
def files_removed_at_once(spark: SparkSession, table: str) -> Iterator[None]:
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.deletedFileRetentionDuration = 'interval 0 seconds')")
    spark.conf.set(RETENTION_CHECK, "false")
    try:
        yield
    finally:
        spark.conf.unset(RETENTION_CHECK)


def compact(app: Application, topic: str) -> None:
    """Rewrite a topic as one file, and remove the old files."""
    table = app.delta.namespace.identifier(f"topic__{topic}")
    with files_removed_at_once(app.spark, table):
        app.spark.sql(f"OPTIMIZE {table}").collect()
        app.spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()


def produce(app: Application, numbers: range) -> None:
    """One commit for each number, with a record of page ``all`` and one of the number's own page."""
    for number in numbers:
        pages = ("all", f"page-{number}")
        app.topic("clicks").produce([{"key": page, "value": {"page": page, "number": number}} for page in pages])


def numbers_on_topic(app: Application) -> list[Any]:
    return [record["value"]["number"] for record in app.topic("clicks").records()]


def assert_processed(app: Application, numbers: range) -> None:
    pages = {f"page-{number}": [number] for number in numbers}
    assert app.table("seen").to_dict() == {"all": list(numbers), **pages}
    assert app.table("clicks-per-page").to_dict() == {"all": len(numbers), **dict.fromkeys(pages, 1)}
    copied = [(record["value"]["page"], record["value"]["number"]) for record in app.topic("copied").records()]
    assert copied == [(page, number) for number in numbers for page in ("all", f"page-{number}")]


def run_and_list_gaps(app: Application) -> set[str]:
    """Run; the resources that filled a gap."""
    events: list[RunEvent] = []
    app.run(listener=events.append)
    return {str(event.resource) for event in events if isinstance(event, GapFilled)}


@pytest.mark.slow
def test_records_whose_change_feed_is_gone_are_read_from_the_rows_of_their_topic(
    clicks: Callable[[], Application],
) -> None:
    app = clicks()
    produce(app, range(2))
    assert run_and_list_gaps(app) == set()
    produce(app, range(2, 4))
    compact(app, "clicks")
    produce(app, range(4, 5))
    assert run_and_list_gaps(clicks()) == AGENTS
    assert_processed(app, range(5))
    produce(app, range(5, 6))
    assert run_and_list_gaps(app) == set()
    assert_processed(app, range(6))
    assert numbers_on_topic(app) == [number for number in range(6) for _ in range(2)]


@pytest.mark.slow
def test_a_new_reader_reads_a_long_compacted_topic_from_its_beginning(
    clicks: Callable[[], Application],
) -> None:
    """There are more records than are held at once: pieces are read from the rows of the topic, too."""
    app = set_limits(clicks(), few_events=Size(3, 1 << 20), ordered_records=3, ordered_piece=40)
    produce(app, range(4))
    compact(app, "clicks")
    produce(app, range(4, 6))
    compact(app, "clicks")
    assert run_and_list_gaps(app) == AGENTS
    assert_processed(app, range(6))


@pytest.mark.slow
def test_take_leaves_no_record_waiting_that_was_read_from_rows(
    spark: SparkSession, catalog: str, tmp_path: Path
) -> None:
    """A waiting record would be read again from the change feed, which is gone."""
    app = opened(spark, tmp_path, "clicks", IN_PAIRS, catalog)
    produce(app, range(1))
    compact(app, "clicks")
    app.topic("clicks").produce([{"key": "all", "value": {"page": "all", "number": 1}}])
    compact(app, "clicks")
    assert run_and_list_gaps(app) == {"agent/pairs"}
    assert values_of(app, "paired") == [[0, 0], [1]]


@pytest.mark.slow
def test_a_topic_whose_rows_were_not_tracked_from_the_beginning_is_refused(
    clicks: Callable[[], Application], spark: SparkSession
) -> None:
    """Rows written before row tracking have no true commit versions: some would be processed twice."""
    app = clicks()
    table = app.delta.namespace.identifier("topic__clicks")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('kaspr_delta.rowsTrackedFromTheBeginning')")
    produce(app, range(2))
    compact(app, "clicks")
    with pytest.raises(ResourceFailedError, match=r"(?s)agent/remember.*are gone") as refused:
        app.run()
    assert "kaspr-delta delete agent remember --purge" in str(refused.value)
    assert app.table("seen").to_dict() == {}


def test_a_topic_is_read_from_its_beginning_while_its_files_exist(spark: SparkSession, tmp_path: Path) -> None:
    """In a folder, too. Delta alone reads no change feed that is older than the retention of removed files."""
    app = opened(spark, tmp_path, "clicks", MANIFESTS)
    produce(app, range(2))
    with files_removed_at_once(spark, app.delta.namespace.identifier("topic__clicks")):
        produce(app, range(2, 3))
    assert numbers_on_topic(app) == [0, 0, 1, 1, 2, 2]
