"""Manifests that another version has applied and this one refuses: they close nothing, and others can be applied."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

import pytest

from kaspr_delta import Application
from kaspr_delta.control.documents import Document
from kaspr_delta.control.registry import WAREHOUSE_FORMAT, Registry
from kaspr_delta.errors import ManifestError, UsageError
from kaspr_delta.runtime.applying import registry_of
from kaspr_delta.storage.layout import RESOURCES
from kaspr_delta.storage.namespace import Warehouse
from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr

SHOP = """
KasprTable/orders: {name: orders}
KasprTable/products: {name: products}
KasprTable/prices: {name: prices}
KasprJoin/priced:
  leftTable: orders
  rightTable: products
  extractor: {python: "def product(value): return value['product']"}
KasprTable/priced-per-product: {from: {table: priced}, groupBy: {python: "def key(k, v): return k"}, count: {}}
"""


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """The warehouse in which the application was applied from ``shop.yaml`` beside it."""
    (tmp_path / "shop.yaml").write_text(manifests("shop", SHOP))
    with Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh") as app:
        app.table("orders").put({"O1": {"product": "P1"}})
    return tmp_path / "wh"


def stored(warehouse: Path, before: str, after: str) -> Registry:
    """Put manifests of another version into the registry: those that are there, with another text in them."""
    registry = registry_of(Warehouse(str(warehouse)), "shop", "shop")
    documents = registry.documents()
    changed = [replace(one, text=one.text.replace(before, after)) for one in documents]
    assert changed != documents
    write(registry, changed)
    return registry


def write(registry: Registry, documents: list[Document]) -> None:
    rows = [(WAREHOUSE_FORMAT, position, *astuple(one)) for position, one in enumerate(documents)]
    registry.tables.replace(RESOURCES, rows)


@pytest.mark.parametrize(
    ("changed", "refused", "reason"),
    [
        (("name: products", "name: products, newer: 1"), "table/products", "unknown field 'newer' in"),
        (("rightTable: products", "rightTable: ["), "join/priced", ""),
        (
            ("table: priced", "table: priced-per-product"),
            "table/priced-per-product",
            "these are defined by one another",
        ),
    ],
)
def test_what_is_refused_waits_with_what_depends_on_it_and_the_others_stay(
    warehouse: Path, kaspr: Kaspr, changed: tuple[str, str], refused: str, reason: str
) -> None:
    stored(warehouse, *changed)
    with Application.open(warehouse=warehouse) as app:
        waiting = dict(app.plan.waiting)
        assert "this version refuses its manifest: " in waiting[next(ref for ref in waiting if str(ref) == refused)]
        assert {str(ref) for ref in waiting} <= {"table/products", "join/priced", "table/priced-per-product"}
        assert app.table("orders").to_dict() == {"O1": {"product": "P1"}}
    shown = kaspr("get", "all", "--warehouse", warehouse)
    assert shown.code == 0, shown
    lines = {line.split()[0]: line for line in shown.out.splitlines() if line}
    kind, name = refused.split("/")
    assert "False" in lines[f"kaspr{kind}.kaspr.io/{name}"]
    assert "True" in lines["kasprtable.kaspr.io/orders"]
    described = kaspr("describe", kind, name, "--warehouse", warehouse).out
    assert "this version refuses its manifest: " in described
    assert reason in described


def test_the_manifests_of_this_version_can_be_applied_over_those_that_it_refuses(
    warehouse: Path, tmp_path: Path
) -> None:
    stored(warehouse, "name: products", "name: products, newer: 1")
    other = tmp_path / "other.yaml"
    other.write_text(manifests("shop", "KasprTable/more: {name: more}\n"))
    with Application.open(other, warehouse=warehouse, app="shop") as app:
        assert {table.name for table in app.plan.tables} >= {"orders", "prices", "more"}
        assert "table/products" in map(str, dict(app.plan.waiting))
    other.write_text(manifests("shop", "KasprTable/more: {name: more, newest: 1}\n"))
    with pytest.raises(ManifestError, match="newest"):
        Application.open(other, warehouse=warehouse, app="shop")
    with Application.open(tmp_path / "shop.yaml", warehouse=warehouse) as app:
        assert not app.plan.waiting
        assert {"orders", "prices", "products", "more"} <= {table.name for table in app.plan.tables}


def test_a_kind_that_another_version_knows_waits_and_can_be_deleted(warehouse: Path, kaspr: Kaspr) -> None:
    registry = stored(warehouse, "kind: KasprJoin", "kind: KasprSink")
    documents = [replace(one, kind="KasprSink") if one.name == "priced" else one for one in registry.documents()]
    write(registry, documents)
    with Application.open(warehouse=warehouse) as app:
        assert "sink/priced" in map(str, dict(app.plan.waiting))
        assert app.table("orders").get("O1") == {"product": "P1"}
    assert kaspr("status", "--warehouse", warehouse).code == 0
    assert "no sink 'other'" in kaspr("delete", "kasprsink", "other", "--warehouse", warehouse).err
    assert kaspr("delete", "KasprSink", "priced", "--warehouse", warehouse).code == 0
    assert "priced" not in {one.name for one in registry.documents()}


@pytest.mark.parametrize("metadata", ["metadata: null", "metadata: [a]", "metadata: {name: products, labels: [x]}", ""])
def test_text_that_is_no_manifest_waits_too(warehouse: Path, kaspr: Kaspr, metadata: str) -> None:
    registry = registry_of(Warehouse(str(warehouse)), "shop", "shop")
    documents = registry.documents()
    text = metadata and f"kind: KasprTable\n{metadata}\n"
    write(registry, [replace(one, text=text) if one.name == "products" else one for one in documents])
    with Application.open(warehouse=warehouse) as app:
        assert "table/products" in map(str, dict(app.plan.waiting))
    assert kaspr("describe", "table", "products", "--warehouse", warehouse).code == 0


def test_an_application_of_which_all_is_refused_is_not_ready(warehouse: Path, kaspr: Kaspr) -> None:
    app = Application.open(warehouse=warehouse)
    stored(warehouse, "kaspr.io/v1alpha1", "kaspr.io/v9")
    shown = kaspr("get", "all", "--warehouse", warehouse)
    assert (shown.code, " True" in shown.out, " False" in shown.out) == (0, False, True)
    before = app.declared
    app._reload()
    assert app.declared is before
    with pytest.raises(ManifestError, match="must be"):
        Application.open(warehouse=warehouse)


def test_of_two_files_with_one_name_the_healthy_one_is_not_blamed(warehouse: Path) -> None:
    registry = registry_of(Warehouse(str(warehouse)), "shop", "shop")
    one, *others = registry.documents()
    last = max(others, key=lambda other: other.line)
    write(registry, [replace(one, line=last.line), *others])
    stored(warehouse, "table: priced", "table: priced-per-product")
    with Application.open(warehouse=warehouse) as app:
        assert {str(ref) for ref, _ in app.plan.waiting} == {"table/priced-per-product"}


def test_what_is_refused_can_be_deleted_but_its_tables_are_not_known(warehouse: Path) -> None:
    registry = stored(warehouse, "name: products", "name: products, newer: 1")
    with Application.open(warehouse=warehouse) as app:
        with pytest.raises(UsageError, match=r"table/products waits: this version refuses .* its tables are not known"):
            app.delete("table", "products", purge=True)
        app.delete("table", "products")
    assert ("KasprTable", "products") not in {one.id for one in registry.documents()}


def test_nothing_runs_without_the_settings_of_its_application_but_it_can_be_looked_at(
    warehouse: Path, tmp_path: Path, kaspr: Kaspr
) -> None:
    (tmp_path / "shop.yaml").write_text(manifests("shop", "KasprApp/shop: {}\n" + SHOP))
    Application.open(tmp_path / "shop.yaml", warehouse=warehouse).close()
    stored(warehouse, "kind: KasprApp\n", "kind: KasprApp\nnewer: 1\n")
    with pytest.raises(ManifestError, match="unknown field 'newer'"):
        Application.open(warehouse=warehouse)
    shown = kaspr("get", "all", "--warehouse", warehouse)
    assert (shown.code, " True" in shown.out, " False" in shown.out) == (0, False, True)
    assert registry_of(Warehouse(str(warehouse)), "shop", "shop").plan() is None
    Application.open(tmp_path / "shop.yaml", warehouse=warehouse).close()
