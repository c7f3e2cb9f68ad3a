from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from filelock import Timeout

from kaspr_delta.errors import AlreadyRunningError, UsageError
from kaspr_delta.plan.names import INTERNAL_SCHEMA_MARK
from kaspr_delta.storage.heartbeat import Lease
from kaspr_delta.storage.namespace import UnityNamespace, Warehouse


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are renewed and looked at ten times as often."""
    monkeypatch.setattr("kaspr_delta.storage.namespace.Lease", partial(Lease, every=0.5, settle=0.1))


def test_in_a_folder_a_running_resource_is_refused_and_others_start(tmp_path: Path) -> None:
    namespace = Warehouse(str(tmp_path)).namespace("shop")
    with namespace.resource_lock("agent/orders"):
        with pytest.raises(AlreadyRunningError, match="agent/orders already runs on"):
            namespace.resource_lock("agent/orders").__enter__()
        with namespace.resource_lock("agent/products"):
            pass
    with namespace.resource_lock("agent/orders"):
        pass


@pytest.mark.parametrize("lock", ["commit_lock", "table_group_lock"])
def test_in_a_folder_the_locks_of_commits_and_of_batches_are_held_once(tmp_path: Path, lock: str) -> None:
    one, other = (getattr(Warehouse(str(tmp_path)).namespace("shop"), lock) for _ in range(2))
    with one("orders"), other("products"), pytest.raises(Timeout):
        other("orders").acquire(timeout=0)


def test_on_a_volume_a_running_resource_is_refused(tmp_path: Path) -> None:
    namespace = UnityNamespace("main", "shop", str(tmp_path))
    with namespace.resource_lock("agent/orders"):
        with pytest.raises(AlreadyRunningError, match=r"agent/orders already runs on main\.shop: process"):
            namespace.resource_lock("agent/orders").__enter__()
        lock = tmp_path / "_locks" / "running-agent-orders.json"
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [lock]
    assert not lock.exists()


def test_a_warehouse_may_name_the_location_of_its_tables() -> None:
    external = Warehouse("unity://main.shop/checkpoints?location=s3://lake/shop/").namespace("")
    assert external.declared_location("orders") == "s3://lake/shop/orders"
    assert str(external.checkpoints) == "/Volumes/main/shop/checkpoints"
    assert Warehouse("unity://main.shop/checkpoints").namespace("").declared_location("orders") is None


def test_throw_away_tables_are_below_a_folder_and_in_the_schema_of_a_catalog(tmp_path: Path) -> None:
    scratch = Warehouse(str(tmp_path)).scratch("_tried").namespace("_tried")
    assert (scratch.disk, scratch.reaches_checkpoints) == (tmp_path / "_tried", True)
    catalog = Warehouse("unity://main.shop/checkpoints")
    assert catalog.scratch("_tried") == catalog
    assert not catalog.namespace("shop").reaches_checkpoints


def test_without_access_to_the_volume_a_resource_cannot_run() -> None:
    namespace = Warehouse("unity://main.shop/checkpoints").namespace("")
    with pytest.raises(UsageError, match=r"agent/orders cannot run from here: .* in /Volumes/main/shop/checkpoints"):
        namespace.resource_lock("agent/orders").__enter__()


@pytest.mark.parametrize(
    ("volume", "exists", "mounted", "created"),
    [
        ("v", False, [], ["SCHEMA", "VOLUME"]),
        ("v", False, ["main/shop/v"], ["SCHEMA", "VOLUME"]),
        ("v", True, [], []),  # a machine without volumes
        ("v", True, ["main/shop/other"], ["VOLUME"]),
        ("v", True, ["main/shop/v"], []),
        ("/a/folder", False, ["main"], ["SCHEMA"]),
    ],
)
def test_in_a_catalog_what_is_missing_is_created(  # noqa: PLR0917  fixtures, and the case
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    volume: str,
    exists: bool,
    mounted: list[str],
    created: list[str],
) -> None:
    volumes = tmp_path / "Volumes"
    monkeypatch.setattr("kaspr_delta.storage.namespace._VOLUMES", volumes)
    for folder in mounted:
        (volumes / folder).mkdir(parents=True)
    namespace = Warehouse(f"unity://main.shop/{volume}").namespace("shop")
    statements = list(namespace.creation(namespace.schema, exists=exists))
    assert [statement.split()[1] for statement in statements] == created
    assert all("IF NOT EXISTS" in statement for statement in statements)
    marks = ["WITH DBPROPERTIES ('kaspr.application' = 'shop')" in statement for statement in statements]
    assert marks == [kind == "SCHEMA" for kind in created]


@pytest.mark.parametrize(
    ("settings", "internal", "location"),
    [
        ("", None, None),
        ("?location=s3://b/x?y&z", None, "s3://b/x?y&z/orders"),
        ("?internal=shop_internal", "`main`.`shop_internal`", None),
        ("?internal=hidden&location=s3://b", "`main`.`hidden`", "s3://b/orders"),
    ],
)
def test_tables_of_the_engine_may_have_a_schema_of_their_own(
    settings: str, internal: str | None, location: str | None
) -> None:
    namespace = Warehouse(f"unity://main.shop/v{settings}").namespace("shop")
    assert namespace.internal == internal
    assert namespace.declared_location("orders") == location
    for table in ("orders", "topic__orders", "records__priced", "v_orders", INTERNAL_SCHEMA_MARK):
        assert namespace.identifier(table) == f"`main`.`shop`.`{table}`"
    for table in ("_kaspr_progress", "subscriptions__priced", "channel__priced", "log__clean", "aggregation__counts"):
        assert namespace.identifier(table) == f"{internal or '`main`.`shop`'}.`{table}`"
    assert namespace.identifier("a.b.log__x") == "`a`.`b`.`log__x`"


def test_the_schema_of_internal_tables_is_marked_and_has_no_volume() -> None:
    namespace = Warehouse("unity://main.shop/v?internal=shop_internal").namespace("shop")
    assert namespace.internal is not None
    (statement,) = namespace.creation(namespace.internal, exists=False)
    assert statement.startswith("CREATE SCHEMA IF NOT EXISTS `main`.`shop_internal` COMMENT")
    assert "'kaspr.application' = 'shop'" in statement


@pytest.mark.parametrize("settings", ["?internal=", "?internal=a.b", "?other=x", "?internal=a&other=x"])
def test_other_settings_of_a_warehouse_are_refused(settings: str) -> None:
    with pytest.raises(UsageError, match="internal=SCHEMA&location=URI behind it"):
        Warehouse(f"unity://main.shop/v{settings}").namespace("shop")


@pytest.mark.parametrize("text", ["ftp://host/wh", "s4:/bucket/wh", "HDFS://host/wh", "s3n://AK:secret@bucket/wh"])
def test_a_warehouse_of_an_unknown_scheme_is_refused_and_no_folder_is_made(text: str) -> None:
    scheme = text.partition(":")[0]
    with pytest.raises(UsageError, match=rf"cannot be at {scheme}://, which is unknown: expected a folder, ") as error:
        Warehouse(text)
    assert "secret" not in str(error.value)


def test_a_folder_may_be_a_uri_and_its_name_may_have_a_colon(tmp_path: Path) -> None:
    for text in (f"file:{tmp_path}/a%20b", f"file://{tmp_path}/a%20b", f"{tmp_path}/a b"):
        assert Warehouse(text).folder == f"{tmp_path}/a b"
    for text in ("a:b", "s3", "s3a", "C:/data"):
        assert Warehouse(text).is_here
        assert Warehouse(text).folder == str(Path(text).absolute())
