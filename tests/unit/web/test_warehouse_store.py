"""Statements for a SQL warehouse. tests/spark/test_web.py runs them on Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from databricks.sdk.service.sql import StatementState
from starlette.datastructures import Headers

from kaspr_delta.engine.agent.table_state import Cell
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.state_definitions import definition_of
from kaspr_delta.runtime.applying import documents_in
from kaspr_delta.spec.loader import load_path, load_text
from kaspr_delta.storage.namespace import UnityNamespace
from kaspr_delta.storage.warehouse import sql_warehouse
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
from kaspr_delta.web.request import Request
from kaspr_delta.web.served import Served
from kaspr_delta.web.warehouse_store import WarehouseReader, WarehouseStore
from tests.unit.web.conftest import Shop, manifest, plan_of, view


@dataclass
class Api:
    """A fake statement execution API: the answers to come, and the calls so far."""

    answers: Iterator[Any]
    requests: list[str] = field(default_factory=list)

    def execute_statement(self, statement: str, warehouse_id: str, **_: Any) -> Any:
        assert warehouse_id == "w1"
        self.requests.append(statement)
        return next(self.answers)

    def get_statement(self, statement_id: str) -> Any:
        self.requests.append(f"get {statement_id}")
        return next(self.answers)

    def get_statement_result_chunk_n(self, statement_id: str, chunk: int) -> Any:
        self.requests.append(f"chunk {chunk} of {statement_id}")
        return next(self.answers)


def part(rows: list[list[str | None]], following: int | None = None) -> Any:
    return SimpleNamespace(data_array=rows, next_chunk_index=following)


def answer(state: StatementState, result: Any = None, error: str = "") -> Any:
    status = SimpleNamespace(state=state, error=SimpleNamespace(message=error))
    return SimpleNamespace(statement_id="s1", status=status, result=result)


def warehouse(*answers: Any) -> tuple[SqlWarehouse, Api]:
    api = Api(iter(answers))
    client: Any = SimpleNamespace(statement_execution=api)
    return SqlWarehouse(client, "w1", UnityNamespace("main", "shop", "v")), api


DONE = StatementState.SUCCEEDED


def test_a_statement_is_waited_for_and_its_parts_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_warehouse, "time", SimpleNamespace(sleep=lambda _: None, monotonic=lambda: 0))
    pending = answer(StatementState.PENDING)
    asking, api = warehouse(pending, answer(DONE, part([["1"]], following=1)), part([["2"], [None]]))
    assert list(asking.rows("SELECT 1")) == [["1"], ["2"], [None]]
    assert api.requests == ["SELECT 1", "get s1", "chunk 1 of s1"]


def test_a_failed_statement_is_an_error_with_the_reason() -> None:
    asking, _ = warehouse(answer(StatementState.FAILED, error="no such column"))
    with pytest.raises(SetupError, match="w1 refuses a statement: no such column"):
        list(asking.rows("SELECT x"))


def test_a_table_that_is_not_there_has_no_version() -> None:
    asking, _ = warehouse(
        answer(StatementState.FAILED, error=f"[{sql_warehouse._MISSING}] `t`"), answer(DONE, part([["7"]]))
    )
    assert asking.version("t") is None
    assert asking.version("t") == 7


def test_rows_are_queried_by_their_keys_with_escaped_quotes(shop: Shop) -> None:
    shop.apply(manifest("KasprTable", "t", "name: t"))
    rows: list[list[str | None]] = [['"it\'s"', "0", "2", "2"], ['"it\'s"', "0", "1", "1"], ['"a"', "0", None, "null"]]
    asking, api = warehouse(answer(DONE, part(rows)))
    reader = WarehouseReader(asking, plan_of(shop, "t"))
    assert reader.fetch([]) == {}
    assert reader.fetch(['"it\'s"', '"a"']) == {'"it\'s"': "2"}
    (statement,) = api.requests
    assert statement.endswith(
        """FROM `main`.`shop`.`t` WHERE `key` IS NOT NULL AND `value` IS NOT NULL AND """
        """`key` IN ('"a"', '"it\\'s"')"""
    )


def test_rows_are_queried_by_windows_and_raw_keys(shop: Shop) -> None:
    shop.apply(manifest("KasprTable", "w", "name: w\nkeySerializer: raw\nwindow: {tumbling: {size: 1m}}"))
    rows: list[list[str | None]] = [["YQ==", "60000", "1", "5"], ["YQ==", "0", "1", "4"]]
    asking, api = warehouse(answer(DONE, part(rows)), answer(DONE, part(rows[:1])))
    reader = WarehouseReader(asking, plan_of(shop, "w"))
    assert reader.fetch([Cell("YQ==", 60_000)]) == {Cell("YQ==", 60_000): "5"}
    assert "`key` IN (unhex('61'))" in api.requests[0]
    assert reader.scan(60_000) == {Cell("YQ==", 60_000): "5"}
    assert api.requests[1].endswith("`window_start` = timestamp_millis(60000)")


def test_given_manifests_are_served_over_a_sql_warehouse() -> None:
    table = manifest("KasprTable", "users", "name: users")
    lookup = view("v", "GET", "/user/{id}", "def f(request, users): return users.get(request['id'])", tables="users")
    asking, api = warehouse(answer(DONE, part([['"u1"', "0", "1", '{"a":1}']])))
    served = Served(WarehouseStore(asking), "shop", documents_in(load_text(f"{table}---\n{lookup}", "m.yaml"), None))
    found = served.site.route("/user/u1")
    assert found is not None
    route, parameters = found
    answering = route.methods["GET"]
    assert not isinstance(answering, str)
    response = answering.answer(Request("GET", "/user/u1", "", Headers({}), parameters, b""))
    assert (response.status, response.body) == (200, b'{"a":1}')
    assert len(api.requests) == 1


@pytest.mark.process
def test_web_modules_are_imported_without_spark_and_pandas() -> None:
    """A Databricks App installs its packages at every start."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(['pyspark', 'delta', 'pandas']))"
    imported = "import kaspr_delta.cli, kaspr_delta.web.asgi, kaspr_delta.web.pages, kaspr_delta.web.warehouse_store"
    subprocess.run([sys.executable, "-c", f"{blocked}; {imported}"], check=True, timeout=120)  # noqa: S603


def test_rows_of_typed_tables_are_queried_by_their_key_columns(shop: Shop) -> None:
    columns = "'country STRING, id DECIMAL(38, 0), at TIMESTAMP, day DATE'"
    shop.apply(manifest("KasprTable", "t", f"schema: {columns}\nkey: [country, id, at]"))
    later = '{"country":"it\'s","id":"7","at":"2024-05-01T10:00:00.000000Z","day":"2024-02-29"}'
    rows: list[list[str | None]] = [
        ["2", later],
        ["1", later.replace("02-29", "12-31")],
        ["1", later.replace("7", "8")],
    ]
    asking, api = warehouse(answer(DONE, part(rows)), answer(DONE, part(rows)))
    reader = WarehouseStore(asking).reader(plan_of(shop, "t"))
    key = '["it\'s",7,"2024-05-01T10:00:00.000000Z"]'
    assert reader.fetch([]) == {}
    assert reader.fetch([key]) == {key: later}
    (statement,) = api.requests
    fields = "'country', `country`, 'id', `id`, 'at', `at`, 'day', `day`"
    assert statement.startswith(
        f"SELECT unix_micros(`_timestamp`), to_json(named_struct({fields}), map('timeZone', 'UTC'"
    )
    assert statement.endswith("WHERE `country` IN ('it\\'s') AND `id` IN (TRY_CAST('7' AS DECIMAL(38,0)))")
    assert set(reader.scan(None)) == {key, key.replace("7", "8")}


def test_columns_of_tables_of_others_are_read_with_describe_table() -> None:
    described: list[list[str | None]] = [
        ["id", "bigint", None],
        ["unit price", "decimal(10,2)", None],
        ["shop", "struct<country:string,zip:int>", None],
        ["", "", ""],
        ["# Partitioning", "", ""],
        ["id", "bigint", None],
    ]
    asking, api = warehouse(answer(DONE, part(described)), answer(StatementState.FAILED, error="no grant"))
    store = WarehouseStore(asking)
    found = store.columns("main.shop.products")
    assert [str(column) for column in found] == [
        "`id` BIGINT", "`unit price` DECIMAL(10,2)", "`shop` STRUCT<`country`: STRING, `zip`: INT>",
    ]  # fmt: skip
    assert api.requests == ["DESCRIBE TABLE `main`.`shop`.`products`"]
    assert "cannot be read: SQL warehouse w1 refuses a statement: no grant" in store.columns("main.shop.products")


def test_pages_say_which_resources_need_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    (plan,), _ = build_plans(load_path(Path(__file__).parents[3] / "bundles" / "order-system"))
    join = plan.join("orders-products-join")
    assert join is not None
    other = Start({**definition_of(plan, join.ref), "extractor": "another"}, {}).to_json()
    asked: list[str] = []

    def rows(_: SqlWarehouse, statement: str) -> list[dict[str, Any]]:
        asked.append(statement)
        return [{"start": other}]

    monkeypatch.setattr(SqlWarehouse, "named_rows", rows)
    found = WarehouseStore(warehouse()[0]).rebuilds(plan)
    assert set(found) == {join.ref}
    assert "kaspr-delta rebuild join/orders-products-join" in found[join.ref]
    # Agents have no state that a definition makes.
    (statement,) = asked
    assert f" FROM `main`.`shop`.`{join.log}` WHERE " in statement
