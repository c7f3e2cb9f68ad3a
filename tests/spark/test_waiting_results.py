"""Changed tables of others: an open application notices them as a reopened one does; stored results stay readable."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, ResourceFailedError, UsageError
from kaspr_delta.cli.table import handle_of
from kaspr_delta.runtime.run_events import RunEvent, Started
from tests.continuous import running, wait_until
from tests.manifests import opened
from tests.spark.others import TableOfOthers

MANIFESTS = """
KasprApp/app: {{}}
KasprTable/o: {{}}
KasprTable/other: {{from: {{table: o}}, count: {{}}}}
KasprTable/p: {{source: {{table: {source}, key: [id]}}}}
KasprJoin/j: {{leftTable: o, rightTable: p, column: p, type: left}}
KasprJoin/same: {{leftTable: p, rightTable: p, "on": key, type: outer}}
KasprJoin/picked:
  leftTable: same
  rightTable: p
  "on": key
  type: left
  select: {{columns: {{n: left.right.n, m: right.n}}}}
KasprTable/made: {{from: {{table: p}}, count: {{}}}}
"""
READERS = {"join/j", "join/same", "join/picked", "table/made"}


class Changed:
    """An application that is open while a table of others changes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder, self.table = folder, TableOfOthers(spark, folder / "p")
        self.create("n INT")
        self.app = opened(spark, folder, "app", MANIFESTS.format(source=folder / "p"))
        self.app.table("o").put({"O1": {"p": "a"}})
        self.app.run()

    def create(self, columns: str) -> None:
        self.table.make(f"id STRING, {columns}", "delta.enableTypeWidening = true", "delta.columnMapping.mode = 'name'")
        self.table.run("INSERT INTO {} VALUES ('a', 1)")

    def widened(self) -> None:
        self.table.alter("ALTER COLUMN n TYPE BIGINT")
        self.table.run("UPDATE {} SET n = 5000000000")

    def renamed(self) -> None:
        self.table.alter("RENAME COLUMN n TO m")
        self.table.run("UPDATE {} SET m = 2")

    def feed_off(self) -> None:
        self.table.alter("SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")

    def gone(self) -> None:
        (self.folder / "p").rename(self.folder / "elsewhere")

    def replaced(self) -> None:
        shutil.rmtree(self.folder / "p")
        self.create("n STRING")


CHANGES = (Changed.widened, Changed.gone, Changed.renamed, Changed.feed_off, Changed.replaced)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_an_open_application_waits_for_a_changed_table_as_a_reopened_one_does(
    spark: SparkSession, tmp_path: Path, change: Callable[[Changed], None]
) -> None:
    changed = Changed(spark, tmp_path)
    app = changed.app
    results = {name: app.join(name).to_dict() for name in ("j", "same", "picked")}
    assert results["j"] == {"O1": {"left": {"p": "a"}, "right": {"id": "a", "n": 1}}}
    assert results["picked"] == {"a": {"n": 1, "m": 1}}
    change(changed)
    app.table("o").put({"O2": {"p": "b"}})
    failed: list[str] = []
    try:
        app.run()
    except ResourceFailedError as error:  # a made table keeps no columns: it goes on, or needs a rebuild
        failed = str(error).splitlines()
    assert all(line.startswith("table/made failed: table/made cannot go on") for line in failed)
    again = Application.open(warehouse=tmp_path / "wh", spark=spark)
    assert app.plan.waiting == again.plan.waiting
    waiting = {str(ref) for ref, _ in again.plan.waiting}
    assert {"join/j", "join/same", "join/picked"} <= waiting <= {*READERS, "table/p"}
    assert app.table("other").to_dict() == {"O1": 1, "O2": 1}
    for name, result in results.items():
        assert handle_of(again, name).rows() == list(result.items())
        assert again.join(name).export(str(tmp_path / f"{name}.parquet")) == 1
    assert len(again.channel("j-channel").records()) == 1
    assert again.table("made").to_dict() == {"a": 1}
    if again.plan.table("p") is None:
        with pytest.raises(UsageError, match="table 'p' has no rows that can be read: it waits: "):
            again.table("p")


@pytest.mark.slow
def test_a_table_that_changes_during_a_run_fails_it_with_the_sentence_of_a_reopened_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    changed = Changed(spark, tmp_path)

    def widen_late(event: RunEvent) -> None:
        if isinstance(event, Started) and not late:
            late.append(event)
            changed.widened()

    late: list[RunEvent] = []
    with pytest.raises(ResourceFailedError) as raised:
        changed.app.run(listener=widen_late)
    again = Application.open(warehouse=tmp_path / "wh", spark=spark)
    reasons = {str(ref): reason for ref, reason in again.plan.waiting}
    assert f"join/j failed: {reasons['join/j']}" in str(raised.value)
    assert "Py4J" not in str(raised.value)


@pytest.mark.slow
def test_a_continuous_run_takes_readers_up_again_once_their_table_is_mended(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kaspr_delta.application._LOOK_AGAIN", 1.0)
    changed = Changed(spark, tmp_path)
    changed.gone()
    app = Application.open(warehouse=tmp_path / "wh", spark=spark)
    with running(app) as failures:
        app.table("o").put({"O2": {"p": "a"}})
        wait_until(lambda: "O2" in app.table("other").to_dict(), failures)
        assert "O2" not in app.join("j").to_dict()
        (tmp_path / "elsewhere").rename(tmp_path / "p")
        wait_until(lambda: "O2" in app.join("j").to_dict(), failures)
    assert not failures
