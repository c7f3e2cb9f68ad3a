from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from databricks.sdk.errors import NotFound
from databricks.sdk.service.iam import AccessControlResponse, Permission, PermissionLevel
from pyspark.errors import PySparkException

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.doctor.bench import Bench
from kaspr_delta.runtime.doctor.identities import Identities, probes, read_by_web_views
from kaspr_delta.runtime.doctor.probe import Answer
from kaspr_delta.storage.namespace import Namespace, UnityNamespace
from kaspr_delta.workspace.deployed import Workspace
from tests.manifests import plan_of
from tests.unit.runtime.doctor.fake import bench_on

SHOWN = """
KasprTable/stock: {source: {table: main.sales.stock, key: [id]}}
KasprTable/copied: {source: {table: main.sales.other, key: [id]}}
KasprWebView/stock-of:
  request: {method: GET, path: /stock}
  processors:
    pipeline: [show]
    operations:
      - name: show
        tables: [{name: stock, paramName: stock}]
        map: {python: "def show(request, stock): return stock['a']"}
"""
SHOP = plan_of("shop", SHOWN)
REFUSED = PySparkException("[INSUFFICIENT_PERMISSIONS] not yours")
ALL = Identities(("readers", "1-2"), "1-2", ("readers",), "w1", ("7", "8"))


def held(**rows: str) -> dict[str, list[Any]]:
    """The answers to SHOW GRANTS, by a part of it: the privileges of the principal that it names."""
    named = ("SHOW GRANTS `readers`", "SHOW GRANTS `1-2`", "SHOW GRANTS `account users`")
    principals = dict(zip(("readers", "app", "everybody"), named, strict=True))
    return {
        principals[name]: [
            {"Principal": principals[name].split("`")[1], "ActionType": text} for text in given.split(",")
        ]
        for name, given in rows.items()
    }


def answer(name: str, bench: Bench, plan: Plan = SHOP, of: Identities = ALL) -> Answer:
    (probe,) = [probe for probe in probes(plan, of) if probe.name == name]
    return probe.answer(bench, 9)


def in_catalog(folder: Path, sql: dict[str, Any], internal: str | None = None) -> Bench:
    namespace: Namespace = UnityNamespace("main", "shop", str(folder), None, "shop", internal)
    return bench_on(folder, namespace=namespace, sql=sql)


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A workspace that shows the jobs 7 and 8, and who may use the SQL warehouse."""

    def get_job(number: int) -> None:
        if number not in shown.jobs:
            raise NotFound("no such job")

    def permissions(kind: str, number: str) -> Any:
        assert (kind, number) == ("warehouses", "w1")
        permission = Permission(inherited=False, permission_level=PermissionLevel.CAN_USE)
        entries = [AccessControlResponse(all_permissions=[permission], group_name=name) for name in shown.users]
        return SimpleNamespace(access_control_list=entries)

    shown = SimpleNamespace(jobs=[7, 8], users=["readers"])
    client: Any = SimpleNamespace(
        jobs=SimpleNamespace(get=get_job), permissions=SimpleNamespace(get=permissions), current_user=None
    )
    monkeypatch.setattr(Workspace, "connect", lambda: Workspace(client))
    return shown


@pytest.mark.parametrize(
    ("grants", "seen"),
    [
        (held(everybody="USE CATALOG"), "all 2 of them"),
        (held(readers="USE_CATALOG", app="ALL PRIVILEGES"), "all 2 of them"),
        (held(readers="USE CATALOG"), "not seen, though a group may give it: USE CATALOG of 1-2 on CATALOG `main`"),
    ],
)
def test_whoever_gets_grants_has_to_use_the_catalog(tmp_path: Path, grants: dict[str, Any], seen: str) -> None:
    found = answer("catalog", in_catalog(tmp_path, grants))
    assert (found.seen, found.grade) == (seen, "note" if "not seen" in seen else "ok")


def test_the_app_has_to_read_the_tables_of_others_that_web_views_read(tmp_path: Path) -> None:
    assert read_by_web_views(SHOP) == ("main.sales.stock",)
    everything = held(app="USE CATALOG,USE SCHEMA,SELECT")
    assert answer("sources of the App", in_catalog(tmp_path, everything)).grade == "ok"
    found = answer("sources of the App", in_catalog(tmp_path, held(app="USE CATALOG")))
    assert (found.grade, found.seen.partition(": ")[2]) == (
        "note",
        "USE SCHEMA of 1-2 on SCHEMA `main`.`sales`; SELECT of 1-2 on TABLE `main`.`sales`.`stock`",
    )
    assert "sources of the App" not in [probe.name for probe in probes(plan_of("shop", "KasprTable/a: {}"), ALL)]


@pytest.mark.parametrize(("owner", "grade"), [("me", "ok"), ("x", "note")])
def test_only_who_owns_or_manages_the_schemas_removes_them(tmp_path: Path, owner: str, grade: str) -> None:
    sql = {"current_user": [{"name": "me"}], "DESCRIBE SCHEMA": [("Owner", owner)], "is_account": [{"member": False}]}
    found = answer("purge", in_catalog(tmp_path, sql, "inside"))
    refused = "SetupError: it neither owns nor manages `main`.`shop` and `main`.`inside`"
    assert found.grade == grade
    assert found.seen == ("it owns or manages what it would remove" if grade == "ok" else refused.split(": ")[1])


def test_grants_that_a_catalog_does_not_show_are_no_missing_ones(tmp_path: Path, workspace: Any) -> None:
    refused = {"ON CATALOG": REFUSED, **held(readers="USE SCHEMA,SELECT")}
    assert answer("catalog", in_catalog(tmp_path, refused)).seen.endswith(
        "grants on CATALOG `main`, which are not shown here"
    )
    found = answer("dashboard", in_catalog(tmp_path, refused))
    assert found.seen.endswith("grants on CATALOG `main`, which are not shown here")
    workspace.users = []
    assert "CAN USE of readers" in answer("dashboard", in_catalog(tmp_path, refused)).seen


def test_jobs_that_the_workspace_does_not_show_are_named(tmp_path: Path, workspace: Any) -> None:
    assert answer("jobs", in_catalog(tmp_path, {})).seen == "it sees all 2"
    workspace.jobs = [7]
    found = answer("jobs", in_catalog(tmp_path, {}))
    assert (found.grade, found.seen) == ("note", "not seen: 8")


@pytest.mark.parametrize(
    ("users", "grants", "missing"),
    [
        (["readers"], held(readers="USE CATALOG,USE SCHEMA,SELECT"), []),
        (["users"], held(everybody="ALL PRIVILEGES"), []),
        (["others"], held(readers="SELECT"), ["USE SCHEMA of readers", "CAN USE of readers on the SQL warehouse"]),
    ],
)
def test_who_looks_at_the_dashboard_needs_its_warehouse_and_its_tables(
    tmp_path: Path, workspace: Any, users: list[str], grants: dict[str, Any], missing: list[str]
) -> None:
    workspace.users = users
    found = answer("dashboard", in_catalog(tmp_path, grants, "inside"))
    assert found.grade == ("note" if missing else "ok")
    assert all(one in found.seen for one in missing)
    assert ("SCHEMA `main`.`inside`" in found.seen) is bool(missing)


def test_system_tables_that_may_not_be_read_are_a_note(tmp_path: Path) -> None:
    assert answer("system tables", in_catalog(tmp_path, {})).grade == "ok"
    found = answer("system tables", in_catalog(tmp_path, {"system.billing": REFUSED}))
    assert (found.grade, "not yours" in found.seen) == ("note", True)


def test_nothing_is_asked_about_nobody() -> None:
    assert list(probes(SHOP, Identities())) == []
