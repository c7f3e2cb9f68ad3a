"""Traps of change feeds: a join follows the changes, or refuses with a sentence that names the remedy."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.runtime.run_events import GapFilled, RunEvent
from tests.limits import set_limits
from tests.spark.channels import last_values

MANIFESTS = Path(__file__).parent / "applications" / "joins.yaml"
CHANNELS = {"join/inner": "inner-channel", "join/left": "left-joined"}
BOTH = list(CHANNELS)


@pytest.fixture
def app(spark: SparkSession, tmp_path: Path) -> Application:
    app = Application.open(MANIFESTS, warehouse=tmp_path, spark=spark)
    app.table("products").put({"P1": {"name": "Widget"}, "P2": {"name": "Gadget"}})
    app.table("orders").put({"a": {"product_id": "P1"}, "b": {"product_id": "P2"}})
    app.run(only=BOTH)
    return app


def expected(app: Application, join: str) -> dict[Any, Any]:
    orders, products = app.table("orders").to_dict(), app.table("products").to_dict()
    joined = {key: {"left": row, "right": products.get(row["product_id"])} for key, row in orders.items()}
    return joined if join == "left" else {key: row for key, row in joined.items() if row["right"] is not None}


def assert_joined(app: Application, joins: Sequence[str] = BOTH) -> None:
    for join in joins:
        name = join.removeprefix("join/")
        assert app.join(name).to_dict() == expected(app, name)
        assert last_values(app.channel(CHANNELS[join]).records()) == expected(app, name)


def assert_refused(app: Application, reason: str) -> None:
    """Assert that both joins refuse for this reason and name the rebuild, and that the left join is unchanged."""
    before = app.join("left").to_dict()
    with pytest.raises(ResourceFailedError) as error:
        app.run(only=BOTH)
    for join in BOTH:
        (line,) = [line for line in str(error.value).splitlines() if line.startswith(f"{join} failed")]
        assert reason in line
        assert f"kaspr-delta rebuild {join}" in line
    assert app.join("left").to_dict() == before


def rebuild_and_check(app: Application) -> None:
    for join in BOTH:
        app.rebuild(join)
    assert_joined(app)
    app.table("orders").put({"later": {"product_id": "P1"}})
    app.run(only=BOTH)
    assert_joined(app)


@pytest.mark.usefixtures("tables_with_own_ids")
@pytest.mark.slow
def test_a_removed_table_is_named_and_its_replacement_needs_a_rebuild(app: Application, tmp_path: Path) -> None:
    app.table("orders").put({"new": {"product_id": "P1"}})
    (products,) = tmp_path.glob("*/products")
    shutil.rmtree(products)
    with pytest.raises(ResourceFailedError) as error:
        app.run(only=BOTH)
    told = f"the table products is gone: {products} was removed while it was in use. Run again, which creates it empty"
    assert str(error.value).startswith(f"{', '.join(BOTH)} failed: {told}")
    app = Application.open(MANIFESTS, warehouse=tmp_path, spark=app.spark)
    assert_refused(app, "a table it reads was replaced by another one of the same name")
    app.table("products").put({"P1": {"name": "Widget"}})
    rebuild_and_check(app)


def test_deletions_of_an_overwrite_in_several_batches_erase_no_new_row(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of a backlog comes in several batches, its deletions last. They name touched keys, and erase nothing."""
    seen: list[set[str]] = []

    def watched(self: BatchRunner, batch: DataFrame, batch_id: int) -> None:
        if self.resource.ref.name == "inner":
            seen.append({row["key"] for row in batch.collect()})
        process(self, batch, batch_id)

    process = BatchRunner.process
    set_limits(app, feed_batch="1b")
    monkeypatch.setattr(BatchRunner, "process", watched)
    swapped = [('"a"', '{"product_id":"P2"}'), ('"b"', '{"product_id":"P1"}')]
    rows = app.spark.createDataFrame(swapped, "key STRING, value STRING").withColumn("timestamp", F.current_timestamp())
    app.delta.replace(app.spark, rows.repartition(2, "key"), "orders")
    app.run(only=BOTH)
    assert sum('"a"' in keys for keys in seen) > 1, "the commit came in one batch"
    assert_joined(app)
    assert app.join("inner").get("a")["right"] == {"name": "Gadget"}


@pytest.mark.slow
def test_a_first_load_of_several_commits_is_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    app = Application.open(MANIFESTS, warehouse=tmp_path, spark=spark)
    app.table("products").put({"P1": {"name": "Widget"}})
    for number in range(3):
        app.table("orders").put({f"O{number}": {"product_id": "P1"}})
    report = app.run(only=BOTH)
    assert report.resources["join/inner"].batches == 1
    assert_joined(app)


@pytest.mark.slow
def test_changes_while_the_feed_was_off_are_read_from_data_files_or_refused(app: Application) -> None:
    """Delta refuses a feed only where a batch begins at a version without one."""
    app.sql("ALTER TABLE orders SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    app.table("orders").put({"a": {"product_id": "P2"}, "c": {"product_id": "P1"}})
    app.table("orders").delete("b")
    app.run(only=BOTH)
    assert_joined(app)
    app.table("orders").put({"d": {"product_id": "P1"}})
    assert_refused(app, "delta.enableChangeDataFeed = true")
    app.sql("ALTER TABLE orders SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    app.table("orders").put({"e": {"product_id": "P1"}})
    assert_refused(app, "delta.enableChangeDataFeed = true")
    rebuild_and_check(app)


@pytest.mark.slow
def test_changes_that_vacuum_removed_are_refused(app: Application) -> None:
    change_and_vacuum(app)
    assert_refused(app, "changes that it had not read yet are gone")
    rebuild_and_check(app)


def change_and_vacuum(app: Application) -> None:
    """Change rows, and remove the files that the changes would be read from."""
    app.table("orders").put({"a": {"product_id": "P2"}})
    app.table("orders").delete("b")
    app.sql("ALTER TABLE orders SET TBLPROPERTIES (delta.deletedFileRetentionDuration = 'interval 0 seconds')")
    app.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        app.sql("VACUUM orders RETAIN 0 HOURS")
    finally:
        app.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


@pytest.mark.slow
def test_a_join_fills_a_gap_if_the_application_sets_ongap_to_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    manifests = tmp_path / "joins.yaml"
    settings = "metadata: {name: joins}\nspec: {config: {onGap: rebuild}}\n"
    manifests.write_text(MANIFESTS.read_text().replace("metadata: {name: joins}\n", settings, 1))
    app = Application.open(manifests, warehouse=tmp_path / "wh", spark=spark)
    app.table("products").put({"P1": {"name": "Widget"}, "P2": {"name": "Gadget"}})
    app.table("orders").put({"a": {"product_id": "P1"}, "b": {"product_id": "P2"}})
    app.run(only=BOTH[:1])
    change_and_vacuum(app)
    for expected_gaps in (BOTH[:1], []):
        events: list[RunEvent] = []
        app.run(only=BOTH[:1], listener=events.append)
        assert [str(event.resource) for event in events if isinstance(event, GapFilled)] == expected_gaps
        assert_joined(app, BOTH[:1])
        app.table("orders").put({"later": {"product_id": "P1"}})


@pytest.mark.slow
def test_a_renamed_column_is_refused(app: Application) -> None:
    """A table may have other columns beside key and value. If one of them is renamed, the feed stops."""
    app.sql("ALTER TABLE orders ADD COLUMNS (note STRING)")
    app.run(only=BOTH)
    app.sql("ALTER TABLE orders SET TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    app.sql("ALTER TABLE orders RENAME COLUMN note TO remark")
    app.table("orders").put({"c": {"product_id": "P1"}})
    assert_refused(app, "columns of a table it reads were renamed, dropped or retyped")
    rebuild_and_check(app)


@pytest.mark.slow
def test_added_columns_restored_versions_and_compaction_are_followed(app: Application) -> None:
    app.sql("ALTER TABLE orders ADD COLUMNS (note STRING)")
    app.sql("""INSERT INTO orders VALUES ('"c"', '{"product_id":"P1"}', NULL, 'by hand')""")
    app.run(only=BOTH)
    assert_joined(app)
    app.sql("OPTIMIZE orders")
    told = len(app.channel("left-joined").records())
    app.run(only=BOTH)
    assert len(app.channel("left-joined").records()) == told
    app.sql("RESTORE TABLE orders TO VERSION AS OF 2")  # the version that added the column
    app.run(only=BOTH)
    assert set(app.table("orders").to_dict()) == {"a", "b"}
    assert_joined(app)
