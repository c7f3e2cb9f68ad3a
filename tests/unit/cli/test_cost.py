from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import databricks.sdk
import pytest
from databricks.sdk.service.sql import StatementState

from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT
from kaspr_delta.storage.layout import PROGRESS
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from tests.folders import delta_rs
from tests.unit.cli.conftest import Kaspr
from tests.unit.cli.test_deploy import bundle, install_cli  # noqa: F401  the first one is a fixture

BUNDLE = Path(__file__).parents[3] / "bundles" / "order-system"
AT = datetime.now(timezone.utc)


def test_a_cost_has_the_batches_of_the_warehouse(kaspr: Kaspr, tmp_path: Path) -> None:
    system = NativeSystemTables(delta_rs(Warehouse(str(tmp_path)).namespace("order_system")))
    system.append(PROGRESS, [("agent/ingest-orders", "c1", 0, 12, 1_234, 0, 0, 0, 0.25, "{}", AT)])
    answer = kaspr("plan", BUNDLE, "--cost", "--warehouse", tmp_path)
    assert answer.code == 0
    assert "one (deployed)" in answer.out
    assert f"Batches a day, from {AT:%Y-%m-%d} to {AT:%Y-%m-%d}:" in answer.out
    assert re.search(r"agent/ingest-orders +1 +12 +1,234 +0\.25", answer.out)
    assert "Statements a day, beside the idle ones: up to 10, if batches are small." in answer.out
    assert "FROM system.billing.usage" in answer.out
    (found,) = json.loads(kaspr("plan", BUNDLE, "--cost", "-o", "json", "--warehouse", tmp_path).out)["applications"]
    assert found["application"] == "order-system"
    assert found["work"]["resources"]["agent/ingest-orders"] == {
        "batches": 1,
        "rowsIn": 12,
        "rowsOut": 1_234,
        "seconds": 0.25,
    }
    assert found["work"]["statements"] == 10
    assert found["work"]["bytesAdded"] > 0
    assert found["work"]["last"] == f"{AT:%Y-%m-%d}"


def test_variables_choose_the_deployment_and_need_the_option(kaspr: Kaspr, tmp_path: Path) -> None:
    def of(*options: str) -> Any:
        answer = kaspr("plan", BUNDLE, "--cost", "-o", "json", "--warehouse", tmp_path, *options)
        return json.loads(answer.out)["applications"][0]

    found = of("--var", "layout=group", "--var", "schedule=0 0 * * * ?")
    assert [one["layout"] for one in found["layouts"] if one["isDeployed"]] == ["group"]
    assert found["layouts"][1]["starts"] == {"least": 4 * 24, "most": 4 * 24}
    assert found["work"] == {"unknown": "no batch has run yet"}
    refused = {
        ("--var", "layout=group"): "--profile and --var are for --cost and --target",
        ("--cost", "--var", "layuot=group"): "no variable 'layuot' (did you mean 'layout'?)",
        ("--cost", "--var", "layout"): "--var layout: expected NAME=VALUE",
        ("--cost", "-o", "mermaid"): "--cost is shown as table, text or json",
    }
    for options, reason in refused.items():
        answer = kaspr("plan", BUNDLE, *options)
        assert (answer.code, answer.out) == (2, "")
        assert reason in answer.err


def test_a_catalog_is_read_through_a_sql_warehouse(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABRICKS_WAREHOUSE_ID", raising=False)
    answer = kaspr("plan", BUNDLE, "--cost", "--warehouse", f"unity://main.shop/{tmp_path}")
    assert answer.code == 0
    assert "Batches, bytes: `main`.`shop` is read through a SQL warehouse: name one with --var sql_wareh" in answer.out


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that the SQL warehouse w1 was asked, which answers them."""
    statements: list[str] = []

    def execute(statement: str, warehouse_id: str, **_: Any) -> Any:
        assert warehouse_id == "w1"
        statements.append(statement)
        names, rows = next(answer for part, answer in ANSWERS.items() if part in statement)
        columns = [SimpleNamespace(name=name, type_text="STRING") for name in names]
        return SimpleNamespace(
            statement_id="s1",
            status=SimpleNamespace(state=StatementState.SUCCEEDED),
            manifest=SimpleNamespace(schema=SimpleNamespace(columns=columns)),
            result=SimpleNamespace(data_array=rows, next_chunk_index=None),
        )

    client = SimpleNamespace(statement_execution=SimpleNamespace(execute_statement=execute))
    monkeypatch.setattr(databricks.sdk, "WorkspaceClient", lambda **_: client)
    return statements


def test_a_target_has_the_variables_and_the_tables_of_its_deployment(
    bundle: Path,  # noqa: F811
    kaspr: Kaspr,
    asked: list[str],
) -> None:
    install_cli(bundle, sql_warehouse="w1", layout="group", mode="continuous")
    (bundle / "bundles" / "shop" / "agent.yaml").write_text(AGENT)
    answer = kaspr("plan", "bundles/shop", "--cost", "--target", "prod")
    assert answer.code == 0
    assert "shop in prod, a day: mode=continuous" in answer.out
    assert "group (deployed)" in answer.out
    assert re.search(r"agent/a +3 +6 +6 +0\.75", answer.out)
    assert "Files written a day: 700 B. Files removed from tables: 0 B." in answer.out
    assert [re.search(r"`main`.`dev_ann_shop`.*", one) is not None for one in asked] == [True] * 4


@pytest.mark.parametrize("options", [["--cost"], []])
def test_a_target_has_the_values_of_its_deployment(
    bundle: Path,  # noqa: F811
    kaspr: Kaspr,
    asked: list[str],
    options: list[str],
) -> None:
    install_cli(bundle, sql_warehouse="w1", values="values.prod.yaml")
    (bundle / "bundles" / "shop" / "agent.yaml").write_text(AGENT.replace("name: t}", "name: '${TOPIC}'}"))
    assert "the parameter 'TOPIC' has no value" in kaspr("plan", "bundles/shop").err
    (bundle / "bundles" / "shop" / "values.prod.yaml").write_text("TOPIC: sold\n")
    answer = kaspr("plan", "bundles/shop", "--target", "prod", "-o", "text", *options)
    assert (answer.code, answer.err) == (0, "")
    assert options or "TOPIC: sold" in answer.out
    assert asked
    refused = kaspr("plan", "bundles/shop", "--target", "prod", "--set", "TOPIC=other", *options)
    assert (refused.code, "--values and --set are not for --target" in refused.err) == (2, True)


def test_a_target_without_a_sql_warehouse_has_a_plan_that_knows_no_migrations(
    bundle: Path,  # noqa: F811
    kaspr: Kaspr,
) -> None:
    install_cli(bundle)
    answer = kaspr("plan", "bundles/shop", "--target", "prod", "-o", "text")
    assert (answer.code, "application shop" in answer.out) == (0, True)
    assert "--var sql_warehouse=ID names one that looks" in answer.err


def test_a_target_has_no_variables_of_this_environment(
    bundle: Path,  # noqa: F811
    kaspr: Kaspr,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_TOPIC", "sold")
    install_cli(bundle, sql_warehouse="w1")
    (bundle / "bundles" / "shop" / "agent.yaml").write_text(AGENT.replace("name: t}", "name: '${env:SHOP_TOPIC}'}"))
    assert kaspr("plan", "bundles/shop").code == 0
    answer = kaspr("plan", "bundles/shop", "--target", "prod")
    assert (answer.code, "SHOP_TOPIC" in answer.err) == (1, True)


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_plan_of_a_target_tells_what_the_next_version_migrates_in_its_deployment(
    bundle: Path,  # noqa: F811
    kaspr: Kaspr,
    asked: list[str],
    output: str,
) -> None:
    install_cli(bundle, sql_warehouse="w1")
    (bundle / "bundles" / "shop" / "agent.yaml").write_text(AGENT)
    answer = kaspr("plan", "bundles/shop", "--target", "prod", "-o", output)
    assert answer.code == 0
    assert f"the next run migrates its state from format 1 to {STATE_FORMAT}" in answer.out
    assert [re.search(r"FROM `main`.`dev_ann_shop`.`log__a`", one) is not None for one in asked] == [True]


BATCHES = '{"resource":"agent/a","day":"2026-03-10","batches":3,"rows_in":6,"rows_out":6,"seconds":0.75}'
COMMIT = ["1", "2026-03-10T09:00:00Z", "WRITE", "{numOutputRows -> 4, numOutputBytes -> 700}"]
ANSWERS: dict[str, tuple[list[str], list[list[str]]]] = {
    "DESCRIBE HISTORY": (["version", "timestamp", "operation", "operationMetrics"], [COMMIT]),
    "SHOW VIEWS": (["viewName"], [["v_users"]]),
    "SHOW TABLES": (["tableName"], [["users"], ["v_users"]]),
    "_kaspr_progress": (["json"], [[BATCHES]]),
    "log__": (["start"], [['{"definition": {}, "positions": {"t": 3}, "format": 1}']]),
}
AGENT = """apiVersion: kaspr.io/v1alpha1
kind: KasprAgent
metadata: {name: a, labels: {kaspr.io/app: shop}}
spec:
  input: {topic: {name: t}}
  processors:
    pipeline: [f]
    operations:
      - {name: f, map: {python: "def f(value): return value"}}
"""
