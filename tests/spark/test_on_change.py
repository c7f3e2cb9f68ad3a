"""A definition that changes: every kind of resource with a state of its own, for each value of ``onChange``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application, ResourceFailedError
from tests.manifests import opened

MANIFESTS = """
KasprApp/shop: {config: {onChange: CHANGE}}
KasprTable/orders: {schema: "id STRING, item STRING", key: id}
KasprTable/items: {schema: "id STRING, name STRING", key: id}
KasprTable/notes: {schema: "id STRING, note STRING", key: id}
KasprJoin/by-column: {leftTable: orders, rightTable: items, column: item, type: TYPE}
KasprJoin/by-key: {leftTable: orders, rightTable: notes, "on": key, type: TYPE}
KasprTable/per-item: {from: {table: orders}, groupBy: {python: "def of(order): return order['item']FOLD"}, count: {}}
"""
RESOURCES = ("join/by-column", "join/by-key", "table/per-item")
NEW = {"by-column": {"O1", "O2"}, "by-key": {"O1", "O2"}, "per-item": {"i1", "i9"}}
OLD = {"by-column": {"O1"}, "by-key": {"O2"}, "per-item": {"I1", "I9"}}


def application(spark: SparkSession, folder: Path, change: str, *, new: bool = False) -> Application:
    text = MANIFESTS.replace("CHANGE", change).replace("TYPE", "left" if new else "inner")
    return opened(spark, folder, "shop", text.replace("FOLD", ".lower()" if new else ""))


def keys(app: Application, *, current: bool = False) -> dict[str, set[Any]]:
    """The keys of the results, or of the views that ``--show`` turns."""

    def rows(name: str) -> set[Any]:
        if current:
            table = app.delta.namespace.identifier(f"current__{name.replace('-', '_')}")
            return {json.loads(row["key"]) for row in app.spark.table(table).collect()}
        handle = app.table(name) if name == "per-item" else app.join(name)
        return {key for key, row in handle.to_dict().items() if row}

    return {name: rows(name) for name in OLD}


@pytest.fixture
def changed(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Application:
    """An application of which each definition was changed after a run."""
    app = application(spark, tmp_path, request.param)
    app.table("orders").put({"O1": {"item": "I1"}, "O2": {"item": "I9"}})
    app.table("items").put({"I1": {"name": "nut"}})
    app.table("notes").put({"O2": {"note": "late"}})
    app.run()
    assert keys(app) == OLD
    return application(spark, tmp_path, request.param, new=True)


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["refuse"], indirect=True)
def test_refused_definitions_stop_their_resources_until_each_is_rebuilt(changed: Application) -> None:
    with pytest.raises(ResourceFailedError) as refused:
        changed.run()
    assert all(f"kaspr-delta rebuild {ref}" in str(refused.value) for ref in RESOURCES)
    assert keys(changed) == OLD
    for ref in RESOURCES:
        changed.rebuild(ref)
    assert keys(changed) == NEW
    changed.run()
    assert keys(changed) == NEW


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["rebuild"], indirect=True)
def test_with_rebuild_the_next_run_makes_each_state_anew(changed: Application) -> None:
    report = changed.run()
    assert sorted(report.rebuilt) == sorted(RESOURCES)
    assert keys(changed) == NEW


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["side-by-side"], indirect=True)
def test_side_by_side_compares_each_and_swaps_its_view_with_a_way_back(changed: Application) -> None:
    with pytest.raises(ResourceFailedError) as compared:
        changed.run()
    assert str(compared.value).count("rows added:") == len(RESOURCES)
    assert keys(changed) == keys(changed, current=True) == OLD
    for show, expected in (("new", NEW), ("old", OLD), ("new", NEW)):
        for ref in RESOURCES:
            changed.show(ref, show)  # type: ignore[arg-type]
        assert (keys(changed), keys(changed, current=True)) == (OLD, expected)
    for ref in RESOURCES:
        changed.rebuild(ref)
    assert keys(changed) == keys(changed, current=True) == NEW
