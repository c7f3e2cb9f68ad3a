"""A ``select`` of which a column is gone or has another type: a rebuild makes the result anew, as ``onChange`` says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, ResourceFailedError
from kaspr_delta.engine.batch.folding import Folding
from kaspr_delta.engine.joins.table_join import TableJoin
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.layout import WRITTEN_AT
from kaspr_delta.storage.native.tables import NativeTables
from tests.continuous import running, wait_until
from tests.manifests import opened
from tests.unity_catalog import EXTERNAL

pytestmark = pytest.mark.slow

PICKED = """
KasprApp/shop: {config: {onChange: CHANGE}}
KasprTable/orders: {schema: "id STRING, item STRING, amount INT", key: id}
KasprTable/items: {schema: "id STRING, name STRING", key: id}
KasprJoin/picked: {leftTable: orders, rightTable: items, column: item, select: {columns: COLUMNS}}
KasprTable/per-name: {from: {join: picked}, groupBy: {python: "def of(row): return list(row)[0]"}, count: {}}
"""
REF, READER = ResourceRef("join", "picked"), ResourceRef("table", "per-name")
STORED = {"O1": {"name": "nut", "amount": 1}, "O2": {"name": "nut", "amount": 2}}
# A column is gone, another one has another type, and a third one is new.
SELECTED = {"O1": {"amount": "I1", "of": "nut"}, "O2": {"amount": "I1", "of": "nut"}}


def picked(
    spark: SparkSession, folder: Path, change: str, *, new: bool = False, warehouse: str | None = None
) -> Application:
    columns = "{amount: left.item, of: right.name}" if new else "{name: right.name, amount: left.amount}"
    return opened(spark, folder, "shop", PICKED.replace("CHANGE", change).replace("COLUMNS", columns), warehouse)


def filled(app: Application) -> Application:
    app.table("orders").put({"O1": {"item": "I1", "amount": 1}, "O2": {"item": "I1", "amount": 2}})
    app.table("items").put({"I1": {"name": "nut"}})
    app.run()
    assert app.join("picked").to_dict() == STORED
    return app


@pytest.fixture
def repicked(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Application:
    """An application of which a join selects other columns since its first run."""
    filled(picked(spark, tmp_path, request.param))
    return picked(spark, tmp_path, request.param, new=True)


def view(app: Application) -> dict[str, dict[str, Any]]:
    rows = app.spark.table(app.delta.namespace.identifier("current__picked")).drop(WRITTEN_AT).collect()
    shown = {json.loads(row["key"]): row.asDict() for row in rows}
    return {key: {name: value for name, value in row.items() if name != "key"} for key, row in shown.items()}


def numbers(comparison: Any) -> tuple[int, int, int, int]:
    return comparison.added, comparison.removed, comparison.changed, comparison.equal


@pytest.mark.parametrize("repicked", ["refuse"], indirect=True)
def test_a_join_with_other_columns_asks_for_a_rebuild_and_its_result_can_be_read(repicked: Application) -> None:
    with pytest.raises(ResourceFailedError, match=r"its select has changed .*kaspr-delta rebuild join/picked"):
        repicked.run()
    assert REF in repicked.rebuilds()
    assert dict(repicked.plan.waiting) == {READER: "waits for join/picked"}
    assert repicked.join("picked").to_dict() == STORED
    assert repicked.join("picked").df.count() == len(STORED)
    assert numbers(repicked.compare("join/picked")) == (0, 0, 2, 0)
    assert repicked.join("picked").to_dict() == STORED
    repicked.rebuild("join/picked")
    assert repicked.join("picked").to_dict() == SELECTED
    assert (repicked.rebuilds(), repicked.plan.waiting) == ({}, ())
    repicked.table("orders").put({"O3": {"item": "I1", "amount": 3}})
    with pytest.raises(ResourceFailedError, match=r"table/per-name .*a table it reads was replaced"):
        repicked.run()
    assert repicked.join("picked").to_dict() == {**SELECTED, "O3": {"amount": "I1", "of": "nut"}}
    repicked.rebuild("table/per-name")
    repicked.run()
    assert repicked.table("per-name").to_dict() == {"amount": 3}


def killed(app: Application, monkeypatch: pytest.MonkeyPatch, place: type, method: str) -> None:
    """Let a rebuild end before a step: after its commit, while the result is replaced, or before that has its rows."""
    runner = app._runner(None)
    with monkeypatch.context() as kills:
        kills.setattr(place, method, lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runner.rebuild(REF)


@pytest.mark.parametrize("repicked", ["refuse"], indirect=True)
@pytest.mark.parametrize("step", [(Folding, "fold"), (NativeTables, "create"), (TableJoin, "fold_result")])
def test_a_rebuild_that_is_killed_goes_on_and_may_be_taken_back(
    repicked: Application, step: tuple[type, str], monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path
) -> None:
    killed(repicked, monkeypatch, *step)
    if step[1] != "fold":  # readers must not take it for a result without rows, by no definition
        assert READER in dict(picked(spark, tmp_path, "refuse").plan.waiting)
    again = picked(spark, tmp_path, "refuse", new=True)
    assert READER in dict(again.plan.waiting)
    again.run(only=["join/picked"])
    assert (again.join("picked").to_dict(), again.rebuilds(), again.plan.waiting) == (SELECTED, {}, ())
    killed(picked(spark, tmp_path, "refuse"), monkeypatch, *step)
    with pytest.raises(ResourceFailedError, match="apply the definition before this one, run it once, and apply this"):
        picked(spark, tmp_path, "refuse", new=True).run(only=["join/picked"])
    picked(spark, tmp_path, "refuse").run(only=["join/picked"])
    assert picked(spark, tmp_path, "refuse").join("picked").to_dict() == STORED
    back = picked(spark, tmp_path, "refuse", new=True)
    with pytest.raises(ResourceFailedError, match="kaspr-delta rebuild join/picked"):
        back.run(only=["join/picked"])
    back.rebuild("join/picked")
    assert back.join("picked").to_dict() == SELECTED


def test_a_result_in_a_catalog_gets_other_columns_and_has_them_back(
    spark: SparkSession, tmp_path: Path, catalog: str
) -> None:
    """The files of an external table stay when it is dropped: it is left as it is."""
    filled(picked(spark, tmp_path, "rebuild", warehouse=catalog))
    if EXTERNAL in os.environ:
        app = picked(spark, tmp_path, "rebuild", new=True, warehouse=catalog)
        with pytest.raises(ResourceFailedError, match="the files of this external table would stay at"):
            app.run(only=["join/picked"])
        assert app.join("picked").to_dict() == STORED
        return
    for new, expected in ((True, SELECTED), (False, STORED)):
        app = picked(spark, tmp_path, "rebuild", new=new, warehouse=catalog)
        assert [*app.run(only=["join/picked"]).rebuilt] == ["join/picked"]
        assert app.join("picked").to_dict() == expected
        app.table("orders").put({"O1": {"item": "I1", "amount": 1}})
        app.run(only=["join/picked"])
        assert app.join("picked").to_dict() == expected
    assert app.plan.waiting == ()


def test_a_table_that_the_join_has_not_written_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    own = 'KasprTable/picked: {schema: "key STRING, left STRING, right STRING, more INT", key: key}'
    opened(spark, tmp_path, "shop", own).table("picked").put({"a": {"left": "l"}})
    app = picked(spark, tmp_path, "rebuild", new=True)
    assert dict(app.plan.waiting)[REF].startswith("column 'left' is gone")
    app.run()
    assert app.delta.count(spark, "picked") == 1


def test_a_result_without_a_state_gets_other_columns_by_the_first_run(spark: SparkSession, tmp_path: Path) -> None:
    picked(spark, tmp_path, "refuse").table("items").put({"I1": {"name": "nut"}})
    app = picked(spark, tmp_path, "refuse", new=True)
    app.table("orders").put({"O1": {"item": "I1", "amount": 1}})
    app.run()
    assert app.join("picked").to_dict() == {"O1": SELECTED["O1"]}


BY_KEY = """
KasprTable/orders: {schema: "id STRING, item STRING", key: id}
KasprTable/notes: {schema: "id STRING, note STRING", key: id}
KasprJoin/noted: {leftTable: orders, rightTable: notes, "on": keySELECT}
"""


def test_a_select_that_comes_or_goes_keeps_the_tombstones_of_what_went_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    def app_with(select: str) -> Application:
        return opened(spark, tmp_path, "shop", BY_KEY.replace("SELECT", select))

    app = app_with("")
    app.table("orders").put({key: {"item": "i"} for key in ("O1", "O2", "O3")})
    app.table("notes").put({key: {"note": "n"} for key in ("O1", "O2", "O3")})
    app.run()
    selecting = app_with(", select: {columns: {what: left.item, note: right.note}}")
    selecting.table("orders").put({"O3": None})
    assert numbers(selecting.compare("join/noted")) == (0, 1, 2, 0)
    selecting.rebuild("join/noted")
    shown = {"what": "i", "note": "n"}
    assert selecting.join("noted").to_dict() == {"O1": shown, "O2": shown}
    plain = app_with("")
    plain.table("notes").put({"O2": None})
    plain.rebuild("join/noted")
    assert plain.join("noted").to_dict() == {
        "O1": {"left": {"id": "O1", "item": "i"}, "right": {"id": "O1", "note": "n"}}
    }
    assert plain.sql("SELECT * FROM v_noted").count() == 1
    log = plain.delta.read(spark, plain.plan.log_of(ResourceRef("join", "noted")))
    assert sorted(row["key"] for row in log.where("kind = 'tombstone'").collect()) == ['"O2"', '"O3"']


@pytest.mark.parametrize("repicked", ["rebuild"], indirect=True)
def test_with_rebuild_a_run_makes_a_result_with_other_columns(repicked: Application) -> None:
    report = repicked.run(only=["join/picked"])
    assert [*report.rebuilt] == ["join/picked"]
    assert repicked.join("picked").to_dict() == SELECTED
    assert [event.reason for event in repicked._registry.events() if event.name == "picked"][-1:] == ["Rebuilt"]
    repicked.table("orders").put({"O1": None})
    repicked.run(only=["join/picked"])
    assert repicked.join("picked").to_dict() == {"O2": SELECTED["O2"]}


@pytest.mark.parametrize("repicked", ["rebuild"], indirect=True)
def test_a_continuous_run_makes_the_result_anew_and_goes_on(repicked: Application) -> None:
    with running(repicked, every="200ms", only=["join/picked"]):
        wait_until(lambda: repicked.join("picked").to_dict() == SELECTED)
        repicked.table("orders").put({"O1": None})
        wait_until(lambda: repicked.join("picked").to_dict() == {"O2": SELECTED["O2"]})


@pytest.mark.parametrize("repicked", ["side-by-side"], indirect=True)
def test_side_by_side_compares_other_columns_and_swaps_the_view(
    repicked: Application, spark: SparkSession, tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(ResourceFailedError, match="rows added: 0, removed: 0, changed: 2, equal: 0"):
            repicked.run()
    assert (repicked.join("picked").to_dict(), view(repicked)) == (STORED, STORED)
    for show, expected in (("new", SELECTED), ("old", STORED), ("new", SELECTED)):
        repicked.show("join/picked", show)  # type: ignore[arg-type]
        assert (repicked.join("picked").to_dict(), view(repicked)) == (STORED, expected)
        again = picked(spark, tmp_path, "side-by-side", new=True)
        assert (again.join("picked").to_dict(), view(again)) == (STORED, expected)
    # The way back before it is taken.
    old = picked(spark, tmp_path, "side-by-side")
    assert view(old) == STORED
    old.table("orders").put({"O3": {"item": "I1", "amount": 3}})
    old.run()
    assert view(old) == old.join("picked").to_dict() == {**STORED, "O3": {"name": "nut", "amount": 3}}
    new = picked(spark, tmp_path, "side-by-side", new=True)
    new.rebuild("join/picked")
    assert view(new) == new.join("picked").to_dict() == {**SELECTED, "O3": {"amount": "I1", "of": "nut"}}


def test_columns_that_only_come_or_only_go_leave_a_view_that_shows_each_result(
    spark: SparkSession, tmp_path: Path
) -> None:
    def app_with(columns: str) -> Application:
        text = PICKED.replace("CHANGE", "side-by-side").replace("COLUMNS", f"{{{columns}}}")
        return opened(spark, tmp_path, "shop", text)

    app = app_with("name: right.name")
    app.table("orders").put({"O1": {"item": "I1", "amount": 1}})
    app.table("items").put({"I1": {"name": "nut"}})
    app.run()
    few, many = {"O1": {"name": "nut"}}, {"O1": {"name": "nut", "amount": 1}}
    more = app_with("name: right.name, amount: left.amount")
    assert view(more) == {"O1": {"name": "nut", "amount": None}}
    more.show("join/picked", "new")
    assert view(more) == many
    more.rebuild("join/picked")
    assert view(more) == many
    fewer = app_with("name: right.name")
    assert view(fewer) == many
    fewer.show("join/picked", "new")
    assert view(fewer) == few
    spark.sql(f"DROP VIEW {fewer.delta.namespace.identifier('current__picked')}")  # as in another process
    assert view(app_with("name: right.name")) == few
    assert view(app_with("name: right.name, amount: left.amount")) == many
    again = app_with("name: right.name, amount: left.amount")
    again.table("orders").put({"O2": {"item": "I1", "amount": 2}})
    again.run(only=["join/picked"])
    assert view(again) == again.join("picked").to_dict() == {**many, "O2": {"name": "nut", "amount": 2}}


def test_readers_go_on_when_another_process_has_rebuilt_the_result(spark: SparkSession, tmp_path: Path) -> None:
    filled(picked(spark, tmp_path, "refuse"))
    reader, other = (picked(spark, tmp_path, "refuse", new=True) for _ in range(2))
    assert READER in dict(reader.plan.waiting)
    other.rebuild("join/picked")
    other.rebuild("table/per-name")
    reader.run(only=["table/per-name"])
    assert reader.plan.waiting == ()
    assert reader.table("per-name").to_dict() == {"amount": 2}
