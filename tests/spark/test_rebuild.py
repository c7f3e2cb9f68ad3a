"""A changed definition is refused until the state is rebuilt; a rebuild emits only the rows that differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, NotFoundError, ResourceFailedError, UsageError
from kaspr_delta.control.registry import Registry
from kaspr_delta.engine.batch import migrations, recovery
from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT
from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.report import RunReport
from kaspr_delta.runtime.run_events import Migrated, RunEvent, StateRebuilt, Waits
from tests.continuous import running, wait_until
from tests.limits import set_limits
from tests.manifests import opened
from tests.spark.channels import last_values
from tests.spark.dying import lost_power
from tests.spark.killing import around_writes, killed

MANIFESTS = (Path(__file__).parent / "applications" / "joins.yaml").read_text()
BY_PRODUCT = 'return order["product_id"]'
BY_SPARE = "return order.get('spare') or order['product_id']"
INNER = "join/inner"
JOINS = [INNER, "join/left"]


class Warehouse:
    """Opens applications on one warehouse, each with its own manifests."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def open(self, joins: int = -1, *, on_change: str = "refuse", **changes: str) -> Application:
        """The application with changes, those of the extractor in all joins or in the first ones."""
        app = f"metadata: {{name: joins}}\nspec: {{config: {{onChange: {on_change}}}}}\n"
        text = MANIFESTS.replace("metadata: {name: joins}\n", app, 1)
        for before, after in changes.items():
            text = text.replace(
                {"extractor": BY_PRODUCT, "channel": "outputChannel: left-joined"}[before], after, joins
            )
        file = self.folder / "manifests.yaml"
        file.write_text(text)
        return Application.open(file, warehouse=self.folder / "wh", spark=self.spark)


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark, tmp_path)


def fill(app: Application) -> None:
    app.table("products").put({"P1": {"name": "Widget"}, "P2": {"name": "Gadget"}})
    app.table("orders").put(
        {
            "same": {"product_id": "P1"},
            "moves": {"product_id": "P1", "spare": "P2"},
            "appears": {"product_id": "P404", "spare": "P2"},
            "vanishes": {"product_id": "P1", "spare": "P404"},
        }
    )


def names(app: Application, join: str = "inner") -> dict[Any, Any]:
    return {key: row["right"] and row["right"]["name"] for key, row in app.join(join).rows()}


def test_a_changed_extractor_needs_a_rebuild_that_emits_only_differing_rows(warehouse: Warehouse) -> None:
    """A continuous run leaves the join out until then; the other one goes on."""
    app = warehouse.open()
    fill(app)
    app.run(only=JOINS)
    channel, result = app.channel("inner-channel").records(), app.join("inner").to_dict()

    changed = warehouse.open(joins=1, extractor=BY_SPARE)
    with pytest.raises(ResourceFailedError, match=r"its extractor has changed .* kaspr-delta rebuild join/inner"):
        changed.run(only=[INNER])
    seen: list[RunEvent] = []
    with running(warehouse.open(), only=JOINS, listener=seen.append) as failures:
        changed = warehouse.open(joins=1, extractor=BY_SPARE)
        wait_until(lambda: any(isinstance(one, Waits) and str(one.resource) == INNER for one in seen), failures)
        changed.table("orders").put({"new": {"product_id": "P1", "spare": "P2"}})
        wait_until(lambda: "new" in changed.join("left").to_dict(), failures)
        states = {str(one.resource): one.state for one in changed.status().resources}
        assert states[INNER].startswith("waits: join/inner cannot go on: its extractor has changed")
        warnings = [one for one in changed._registry.events() if one.type == "Warning"]
        assert [(one.name, one.reason) for one in warnings if one.name == "inner"] == [("inner", "RebuildRequired")]
        assert changed.join("inner").to_dict() == result  # readers see the old state until the rebuild

        assert changed.rebuild(INNER).resources[INNER].rows_out == 4
        new = changed.channel("inner-channel").records()[len(channel) :]
        assert [(record["key"], record["value"] and record["value"]["right"]["name"]) for record in new] == [
            ("appears", "Gadget"),
            ("moves", "Gadget"),
            ("new", "Gadget"),
            ("vanishes", None),
        ]
        feed = changed.delta.changes(warehouse.spark, "inner").where("_commit_version > 1 AND _change_type != 'insert'")
        assert {row["key"] for row in feed.collect()} == {'"moves"', '"vanishes"'}
        changed.table("products").put({"P2": {"name": "Gizmo"}})
        gizmos = {"same": "Widget", "moves": "Gizmo", "appears": "Gizmo", "new": "Gizmo"}
        wait_until(lambda: names(changed) == gizmos, failures)
    assert not failures
    assert last_values(changed.channel("inner-channel").records()) == changed.join("inner").to_dict()

    compare_side_by_side(warehouse)
    itself = warehouse.open(extractor=BY_SPARE, on_change="rebuild")
    assert {str(one.resource): one.state for one in itself.status().resources}[JOINS[1]] == "ran"
    seen.clear()
    report = itself.run(only=JOINS, listener=seen.append)
    reason = "its extractor has changed since its state was made"
    assert report.rebuilt == {JOINS[1]: reason}
    assert not any(
        itself.delta.exists(warehouse.spark, f"{kind}__left") for kind in ("differences", "shown", "current")
    )
    assert report.resources[JOINS[1]].rows_out == 4
    assert [(str(one.resource), one.reason) for one in seen if isinstance(one, StateRebuilt)] == [(JOINS[1], reason)]
    assert names(itself, "left") == {**names(itself), "vanishes": None}
    (event,) = [one for one in itself._registry.events() if one.reason == "Rebuilt"]
    assert (event.type, event.name) == ("Normal", "left")
    assert itself.run(only=JOINS) == RunReport({})


def compare_side_by_side(warehouse: Warehouse) -> None:
    """Two runs with the changed extractor: the first one compares, the second one finds the comparison."""
    app = warehouse.open(extractor=BY_SPARE, on_change="side-by-side")
    result, counts = app.join("left").to_dict(), "added: 0, removed: 0, changed: 4, equal: 1; differences__left has"
    for _ in range(2):
        with pytest.raises(ResourceFailedError, match=rf"stays as it was, .*{counts} .* rebuild join/left; or keep"):
            app.run(only=JOINS)
    assert differences(app, "left") == {
        "moves": ("changed", "Widget", "Gizmo"),
        "new": ("changed", "Widget", "Gizmo"),
        "appears": ("changed", None, "Gizmo"),
        "vanishes": ("changed", "Widget", None),
    }
    assert counts in {str(one.resource): one.state for one in app.status().resources}[JOINS[1]]
    assert [one.name for one in app._registry.events() if one.reason == "Compared"] == ["left"]
    shown = {show: (app.show(JOINS[1], show), current(app, "left")) for show in ("old", "new")}
    new = {key: after for key, (_, _, after) in differences(app, "left").items()}
    assert shown == {"old": (0, names(app, "left")), "new": (4, names(app, "left") | new)}
    with pytest.raises(ResourceFailedError):
        app.run(only=JOINS)
    assert current(app, "left") == names(app, "left") | new
    app.show(JOINS[1], "old")
    assert current(app, "left") == names(app, "left")
    app.show(JOINS[1], "new")
    assert app.join("left").to_dict() == result


def current(app: Application, join: str) -> dict[Any, Any]:
    """By key the name of the right row that the current view shows."""
    rows = app.sql(f"SELECT key, right FROM current__{join}").collect()  # noqa: S608
    return {json.loads(row["key"]): row["right"] and json.loads(row["right"])["name"] for row in rows}


def differences(app: Application, join: str) -> dict[Any, tuple[str, Any, Any]]:
    """By key the difference, and the name of the right row before and after."""
    rows = app.sql(f"SELECT key, difference, before, after FROM differences__{join}").collect()  # noqa: S608
    return {json.loads(row["key"]): (row["difference"], _name(row["before"]), _name(row["after"])) for row in rows}


def _name(row: str | None) -> Any:
    right = json.loads(row or "{}").get("right")
    return right and right["name"]


@pytest.mark.slow
def test_a_comparison_that_was_not_recorded_is_made_again_and_the_old_extractor_ends_it(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new extractor by a rebuild, and from there the old one by a comparison and a rebuild again."""
    app = warehouse.open()
    fill(app)
    app.run(only=[INNER])
    logged = app.delta.newest(app.spark, "channel__inner_channel").version
    changed = warehouse.open(extractor=BY_SPARE, on_change="side-by-side")
    with monkeypatch.context() as patched:
        patched.setattr(Registry, "note", lost_power)
        with pytest.raises(InterruptedError):
            changed.run(only=[INNER])
    changed.table("orders").put({"late": {"product_id": "P2"}})
    with pytest.raises(ResourceFailedError, match="added: 2, removed: 1, changed: 1, equal: 1"):
        warehouse.open(extractor=BY_SPARE, on_change="side-by-side").run(only=[INNER])
    assert app.delta.newest(app.spark, "channel__inner_channel").version == logged

    old = warehouse.open(on_change="side-by-side")
    old.run(only=[INNER])
    assert names(old) == {"same": "Widget", "moves": "Widget", "vanishes": "Widget", "late": "Gadget"}
    assert not old.delta.exists(old.spark, "differences__inner")

    new = warehouse.open(extractor=BY_SPARE, on_change="side-by-side")
    with pytest.raises(ResourceFailedError, match="added: 1, removed: 1, changed: 1, equal: 2"):
        new.run(only=[INNER])
    assert new.show(INNER, "new") == 3
    shown = current(new, "inner")
    new.rebuild(INNER)
    assert current(new, "inner") == shown == names(new)
    assert new.delta.count(new.spark, "shown__inner") == 0
    assert names(new) == {"same": "Widget", "moves": "Gadget", "appears": "Gadget", "late": "Gadget"}
    assert not new.delta.exists(new.spark, "differences__inner")
    compared = new.compare(INNER)
    assert (compared.added, compared.removed, compared.changed, compared.equal) == (0, 0, 0, 4)
    with pytest.raises(ResourceFailedError, match="added: 1, removed: 1, changed: 1, equal: 2"):
        warehouse.open(on_change="side-by-side").run(only=[INNER])


@pytest.mark.slow
def test_the_old_extractor_brings_a_join_back_into_a_continuous_run(warehouse: Warehouse) -> None:
    app = warehouse.open()
    fill(app)
    app.run()
    seen: list[RunEvent] = []
    with running(app, listener=seen.append) as failures:
        warehouse.open(joins=1, extractor=BY_SPARE)
        wait_until(lambda: any(isinstance(one, Waits) and str(one.resource) == INNER for one in seen), failures)
        again = warehouse.open()
        again.table("orders").put({"new": {"product_id": "P2"}})
        wait_until(lambda: names(again).get("new") == "Gadget", failures)
    assert not failures


@pytest.fixture(scope="module")
def empty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse whose tables have no row, after a run of a join."""
    warehouse = Warehouse(spark, tmp_path_factory.mktemp("empty"))
    warehouse.open().run(only=[INNER])
    return warehouse


def test_a_rebuild_of_an_empty_join_emits_nothing(empty: Warehouse) -> None:
    app = empty.open()
    app.rebuild(INNER)
    assert app.join("inner").to_dict() == {}
    assert app.channel("inner-channel").records() == []


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_killed_before_and_after_every_write_of_its_own_rebuild_a_join_is_made_anew_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With ``onChange: rebuild``: each kill leaves the old result or the new one, and the channel has no row twice."""
    for point in around_writes(["channel__inner_channel", "inner", "subscriptions__inner", "_kaspr_progress"]):
        folder = tmp_path / "-".join(point)
        folder.mkdir()
        mine = Warehouse(spark, folder)
        app = mine.open()
        fill(app)
        app.run(only=[INNER])
        mine.open(joins=1, extractor=BY_SPARE, on_change="rebuild")
        killed(folder / "manifests.yaml", folder / "wh", INNER, point)
        again = mine.open(joins=1, extractor=BY_SPARE, on_change="rebuild")
        again.run(only=[INNER])
        assert names(again) == {"same": "Widget", "moves": "Gadget", "appears": "Gadget"}, point
        assert len(again.channel("inner-channel").records()) == 6, point
        assert last_values(again.channel("inner-channel").records()) == again.join("inner").to_dict(), point


@pytest.mark.slow
def test_a_new_channel_gets_all_rows_of_the_result(warehouse: Warehouse) -> None:
    app = warehouse.open()
    fill(app)
    app.run()
    app.table("orders").delete("same")
    renamed = warehouse.open(channel="outputChannel: another")
    renamed.run(only=["join/left"])
    assert last_values(renamed.channel("another").records()) == renamed.join("left").to_dict()
    assert set(renamed.join("left").to_dict()) == {"moves", "appears", "vanishes"}


def test_stateless_unknown_and_waiting_resources_cannot_be_rebuilt(empty: Warehouse) -> None:
    app = empty.open()
    with pytest.raises(UsageError, match="agent/name-products keeps no state"):
        app.rebuild("agent/name-products")
    with pytest.raises(NotFoundError, match="join/outer"):
        app.rebuild("join/outer")
    app.delete("table", "products")
    with pytest.raises(UsageError, match="waits"):
        app.rebuild(INNER)


@pytest.mark.slow
def test_a_deleted_join_finds_its_data_again_unless_purged(warehouse: Warehouse) -> None:
    app = warehouse.open()
    fill(app)
    app.run()
    before = app.channel("inner-channel").records()
    app.delete("kjoin", "inner")
    assert app.plan.join("inner") is None
    app = warehouse.open()
    app.run()
    assert app.channel("inner-channel").records() == before
    assert names(app)["moves"] == "Widget"

    app.delete("join", "inner", purge=True)
    assert not app.delta.exists(warehouse.spark, "inner")
    app = warehouse.open()
    assert names(app) == {}
    app.table("orders").delete("moves")
    app.run()
    assert set(names(app)) == {"same", "vanishes"}
    assert last_values(app.channel("inner-channel").records()) == app.join("inner").to_dict()
    with pytest.raises(NotFoundError, match="inner"):
        app.delete("join", "iner")


def test_a_newer_version_migrates_a_state_and_this_one_refuses_it_then(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer version has a step that finds nothing to mend: its stream goes on where it stopped."""
    app = warehouse.open()
    app.run(only=[INNER])
    migrated: list[RunEvent] = []
    with monkeypatch.context() as newer:
        for module in (recovery, migrations):
            newer.setattr(module, "STATE_FORMAT", STATE_FORMAT + 1)
        newer.setitem(migrations.MIGRATIONS, STATE_FORMAT, migrations.Migration("nothing", lambda *_: False))
        app.table("orders").put({"new": {"product_id": "P1"}})
        app.run(only=[INNER], listener=migrated.append)
        app.run(only=[INNER], listener=migrated.append)
    assert [event.before for event in migrated if isinstance(event, Migrated)] == [STATE_FORMAT]
    version = app.delta.newest(app.spark, "_kaspr_progress").version
    with pytest.raises(ResourceFailedError, match=r"join/inner has format 3, .* keeps format 2\. A state does"):
        app.run(only=[INNER])
    with pytest.raises(SetupError, match="use the version that migrated it"):
        app.rebuild(INNER)
    assert app.delta.newest(app.spark, "_kaspr_progress").version == version
    monkeypatch.setattr("kaspr_delta.control.registry.WAREHOUSE_FORMAT", 4)
    with pytest.raises(SetupError, match="kept in format 3"):
        Application.open(warehouse=warehouse.folder / "wh", spark=warehouse.spark)


@pytest.mark.slow
def test_system_tables_drop_old_rows_but_keep_sums_and_the_folded_batch(
    warehouse: Warehouse,
) -> None:
    app = set_limits(warehouse.open(), old_progress=2)
    fill(app)
    app.run(only=[INNER])
    app.table("orders").put({"new": {"product_id": "P2"}, "bad": {}})
    app.run(only=[INNER])
    done = app.sql("SELECT sum(rows_in) rows_in, sum(rows_out) rows_out FROM _kaspr_progress").collect()[0]
    for table in ("_kaspr_progress", "_kaspr_dead_letters"):
        app.sql(f"UPDATE {table} SET at = TIMESTAMP'2001-01-01'")  # noqa: S608  a test's literals
    app.run(only=[INNER])
    (summed,) = app.sql("SELECT batch, rows_in, rows_out FROM _kaspr_progress").collect()
    assert summed["batch"] == 0  # the last batch; the checkpoint began with batch -1
    assert (summed["rows_in"], summed["rows_out"]) == (done["rows_in"], done["rows_out"])
    assert app.dead_letters() == []
    app.table("orders").delete("same")
    app.run(only=[INNER])
    assert last_values(app.channel("inner-channel").records()) == app.join("inner").to_dict()


SUMS = """
KasprTable/orders: {}
KasprTable/sums:
  from: {table: orders}
  onChange: side-by-side
  groupBy: {python: "def shop(order): return order['shop']"}
  count: {}
"""


@pytest.mark.slow
def test_the_current_view_of_a_table_that_is_made_from_another_shows_new_counts_until_a_run_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A group that is not in the new result is not in the view."""
    app = opened(spark, tmp_path, "shop", SUMS)
    app.table("orders").put({number: {"shop": f"S{number % 2}"} for number in (1, 2, 3)})
    app.run()
    assert app.show("table/sums", "old") == 0
    assert shown(app) == {"S0": 1, "S1": 2}
    changed = opened(spark, tmp_path, "shop", SUMS.replace("order['shop']", "order['shop'].replace('0', '1')"))
    assert changed.show("table/sums", "new") == 2
    assert shown(changed) == {"S1": 3}
    app = opened(spark, tmp_path, "shop", SUMS)
    assert shown(app) == {"S1": 3}
    app.table("orders").put({5: {"shop": "S1"}})
    app.run()
    assert shown(app) == {"S0": 1, "S1": 3} == dict(app.table("sums").rows())


def shown(app: Application) -> dict[str, int]:
    """The rows of the current view."""
    rows = app.sql("SELECT key, value FROM current__sums").collect()
    return {json.loads(row["key"]): json.loads(row["value"]) for row in rows}
