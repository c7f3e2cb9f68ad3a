"""A copy of a warehouse: who may be copied where, and what is told of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from kaspr_delta import Application
from kaspr_delta.control.copying import Amount, copy_warehouse
from kaspr_delta.errors import AlreadyRunningError, NotFoundError, SetupError, UsageError
from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.copying.mark import MARK
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.layout import TOPIC
from kaspr_delta.storage.namespace import Warehouse
from tests.documented import ROOT
from tests.folders import delta_rs

BUNDLE = ROOT / "bundles" / "order-system"
ORDERS = "topic__raw_orders"


@pytest.fixture
def source(tmp_path: Path) -> Warehouse:
    """A warehouse with an application that has three records."""
    location = Warehouse(str(tmp_path / "source"))
    apply_manifests(location, load_path(BUNDLE))
    with Application.open(warehouse=location.text) as application:
        application.topic("raw-orders").produce([{"key": str(number), "value": {}} for number in range(3)])
    return location


@pytest.fixture
def target(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "target"))


def rows(location: Warehouse, table: str = ORDERS) -> int:
    return delta_rs(location.namespace("order_system")).count(table)


def test_a_copy_has_the_tables_and_the_manifests_and_goes_on_by_itself(source: Warehouse, target: Warehouse) -> None:
    amounts: list[Amount] = []
    (copied,) = copy_warehouse(source, target, amounts.append)
    checked = copied.checked
    assert (copied.schema, copied.naming, checked.uncounted) == ("order_system", (), {})
    assert checked.rows[ORDERS] == rows(target) == 3
    assert (amounts[-1].files, amounts[-1].bytes) == (amounts[-1].of_files, amounts[-1].of_bytes)
    assert (checked.files, checked.bytes) == (amounts[-1].files, amounts[-1].bytes)
    assert not target.root.has_file(MARK)
    ids = [delta_rs(one.namespace("order_system")).table_id(ORDERS) for one in (source, target)]
    assert ids[0] == ids[1]
    with Application.open(warehouse=target.text) as application:
        assert "join/orders-products-join" in {str(ref) for ref in application.plan.runs}
        application.topic("raw-orders").produce([{"key": "4", "value": {}}])
    assert (rows(source), rows(target)) == (3, 4)


def test_an_unfinished_copy_is_refused_until_the_command_has_come_to_its_end(
    source: Warehouse, target: Warehouse
) -> None:
    def killed(amount: Amount) -> None:
        if amount.files == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        copy_warehouse(source, target, killed)
    sentence = f"{target.folder} is an unfinished copy: go on with `kaspr-delta copy {source.folder} {target.folder}`"
    for path in (None, BUNDLE):
        with pytest.raises(SetupError) as refused:
            Application.open(path, warehouse=target.text)
        assert str(refused.value) == sentence
    with pytest.raises(SetupError, match="is an unfinished copy"):
        apply_manifests(target, load_path(BUNDLE))
    with pytest.raises(SetupError, match="is an unfinished copy"):
        copy_warehouse(target, Warehouse(f"{target.folder}-2"), lambda _: None)
    with pytest.raises(UsageError, match="is an unfinished copy of"):
        copy_warehouse(_other(source), target, lambda _: None)
    copy_warehouse(source, target, lambda _: None)
    Application.open(warehouse=target.text)


def _other(source: Warehouse) -> Warehouse:
    location = Warehouse(f"{source.folder}-other")
    apply_manifests(location, load_path(BUNDLE))
    return location


@pytest.mark.parametrize("content", ["", "{"])
def test_a_mark_of_which_a_kill_left_the_beginning_is_written_anew(
    source: Warehouse, target: Warehouse, content: str
) -> None:
    folder = Path(target.folder)
    folder.mkdir()
    (folder / MARK).write_text(content)
    with pytest.raises(SetupError, match="is an unfinished copy"):
        Application.open(BUNDLE, warehouse=target.text)
    copy_warehouse(source, target, lambda _: None)
    assert rows(target) == 3


def test_a_source_that_runs_is_refused_and_nothing_is_written(source: Warehouse, target: Warehouse) -> None:
    with (
        source.namespace("order_system").resource_lock("join/orders-products-join"),
        pytest.raises(AlreadyRunningError, match="join/orders-products-join already runs"),
    ):
        copy_warehouse(source, target, lambda _: None)
    assert not Path(target.folder).exists()


def test_while_it_is_copied_no_resource_runs(source: Warehouse, target: Warehouse) -> None:
    def run(_: Amount) -> None:
        for ref in application.plan.runs:
            with (
                pytest.raises(AlreadyRunningError),
                source.namespace("order_system").resource_lock(str(ref)),
            ):
                pytest.fail("it runs")

    application = Application.open(warehouse=source.text)
    copy_warehouse(source, target, run)
    with source.namespace("order_system").resource_lock("join/orders-products-join"):
        pass


def test_records_that_come_meanwhile_end_the_copy_which_then_goes_on(source: Warehouse, target: Warehouse) -> None:
    delta = delta_rs(source.namespace("order_system"))
    row = pa.Table.from_pylist(delta.rows(ORDERS)[:1], arrow_schema(TOPIC.columns))

    def produced(amount: Amount) -> None:
        if amount.files == amount.of_files:
            delta.append(ORDERS, row)

    with pytest.raises(SetupError, match=f"'{ORDERS}' changed while it was copied"):
        copy_warehouse(source, target, produced)
    (copied,) = copy_warehouse(source, target, lambda _: None)
    assert copied.checked.rows[ORDERS] == rows(target) == 4


def test_other_places_are_refused(source: Warehouse, target: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for place, sentence in (
        (Warehouse(str(tmp_path / "full")), "full is not empty"),
        (source, "are in each other"),
        (Warehouse(f"{source.folder}/inner"), "are in each other"),
        (Warehouse(str(tmp_path)), "are in each other"),
        (Warehouse("unity://main.shop/volume"), "is a catalog: only warehouses in folders"),
    ):
        with pytest.raises(UsageError, match=sentence):
            copy_warehouse(source, place, lambda _: None)
    with pytest.raises(UsageError, match="is a catalog"):
        copy_warehouse(Warehouse("unity://main.shop/volume"), target, lambda _: None)
    with pytest.raises(NotFoundError, match="there is no application in"):
        copy_warehouse(Warehouse(str(tmp_path / "nothing")), target, lambda _: None)


def test_an_application_that_was_deleted_after_a_kill_is_not_in_the_copy(source: Warehouse, target: Warehouse) -> None:
    def killed(amount: Amount) -> None:
        if amount.files == amount.of_files:
            raise InterruptedError

    apply_manifests(source, load_path(ROOT / "bundles" / "event-counting"))
    with pytest.raises(InterruptedError):
        copy_warehouse(source, target, killed)
    (first,) = (name for name in target.root.names() if name != MARK)
    LocalFolder(Path(source.folder) / first).remove_all()
    (copied,) = copy_warehouse(source, target, lambda _: None)
    assert target.root.names() == [copied.schema] != [first]


def test_manifests_that_name_a_place_in_the_old_warehouse_are_told(
    source: Warehouse, target: Warehouse, tmp_path: Path
) -> None:
    manifest = {
        "apiVersion": "kaspr.io/v1alpha1",
        "kind": "KasprTable",
        "metadata": {"name": "prices", "labels": {"kaspr.io/app": "order-system"}},
        "spec": {"name": "prices", "source": {"table": f"{source.folder}/prices", "key": ["id"]}},
    }
    (tmp_path / "prices.yaml").write_text(json.dumps(manifest))
    apply_manifests(source, load_path(tmp_path / "prices.yaml"), app="order-system")
    (copied,) = copy_warehouse(source, target, lambda _: None)
    assert copied.naming == ("KasprTable prices",)
