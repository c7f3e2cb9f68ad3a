"""Handles of tables, topics and joins, as far as they need no Spark."""

from __future__ import annotations

import csv
import json
import textwrap
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from decimal import Decimal
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow.parquet import read_table

from kaspr_delta.api.export import write_columns
from kaspr_delta.api.join import JoinHandle, StreamJoinHandle
from kaspr_delta.api.table import json_rows
from kaspr_delta.api.topic import ChangelogHandle
from kaspr_delta.application import Application
from kaspr_delta.cli.table import handle_of, has_raw_keys
from kaspr_delta.engine.rows.row_texts import arrow_rows_of
from kaspr_delta.errors import AlreadyRunningError, NotFoundError, SerializationError, SetupError, UsageError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.joined_text import JoinedText
from kaspr_delta.serde.json_lines import json_line
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import RESULT, joined_layout
from kaspr_delta.storage.lazy_session import because, is_running, lazy_session, session_of
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables
from tests.folders import delta_rs
from tests.manifests import manifests, plan_of

MANIFESTS = """
KasprTable/profiles: {keySerializer: raw}
KasprJoin/rows: {leftTable: profiles, rightTable: profiles, on: key}
KasprJoin/records: {leftStream: {topic: views, keySerializer: raw}, rightTable: profiles, on: key, outputChannel: seen}
KasprTable/counted: {from: {join: records}, count: {}}
KasprTable/waits: {from: {join: nowhere}, count: {}}
"""


@pytest.fixture
def app(tmp_path: Path) -> Application:
    """An application without a Spark session; its tables are never read or written."""
    plan = plan_of("shop", MANIFESTS)
    return Application(cast("Any", None), open_tables(Warehouse(str(tmp_path)).namespace(plan.schema)), plan)


def test_the_handle_of_a_join_depends_on_whether_a_side_is_a_stream(app: Application) -> None:
    assert isinstance(app.join("rows"), JoinHandle)
    assert isinstance(app.join("records"), StreamJoinHandle)


@pytest.mark.parametrize("read", ["to_dict", "rows", "get", "rows_of", "export"])
def test_reading_rows_of_a_stream_valued_join_is_an_error_with_alternatives(app: Application, read: str) -> None:
    arguments = [] if read in {"to_dict", "rows"} else ["alice"]
    with pytest.raises(UsageError) as error:
        getattr(handle_of(app, "records"), read)(*arguments)
    for expected in ("'records'", "records()", "consume seen", "`from: {join: records}`"):
        assert expected in str(error.value)


@pytest.mark.parametrize(("name", "raw"), [("profiles", True), ("counted", False), ("rows", True), ("nothing", False)])
def test_tables_and_joins_with_raw_keys_are_recognized(app: Application, name: str, *, raw: bool) -> None:
    assert has_raw_keys(app, name) == raw


def test_a_made_table_and_its_changelog_cannot_be_written(app: Application) -> None:
    refusal = "table 'counted' is made from join/records: write to its sources instead"
    with pytest.raises(UsageError, match=refusal):
        app.table("counted").put({"a": 1})
    with pytest.raises(UsageError, match=refusal):
        app.table("counted").delete(["a"])
    changelog = app.topic("shop-app-counted-changelog")
    assert isinstance(changelog, ChangelogHandle)
    with pytest.raises(UsageError, match=refusal):
        changelog.produce([{"key": "a", "value": 1}])
    with pytest.raises(UsageError, match="table 'waits' is made from a resource that does not exist yet"):
        app.table("waits").put({"a": 1})


def test_put_delete_and_produce_refuse_malformed_arguments_before_writing(app: Application) -> None:
    rows: list[Any] = ["ab", {"key": "a", "value": 1}, [{"key": "a"}]]
    for wrong in rows:
        with pytest.raises(UsageError, match="put"):
            app.table("profiles").put(wrong)
    with pytest.raises(UsageError, match=r"write delete\(b'a'\)"):
        app.table("profiles").delete({"key": b"a", "value": 1})
    record: Any = {"value": 1}
    for topic in ("views", "shop-app-profiles-changelog"):
        with pytest.raises(UsageError, match=r"write produce\(\[{'value': 1}\]\)"):
            app.topic(topic).produce(record)


def test_rebuild_refuses_waiting_resources_and_plain_tables(app: Application) -> None:
    with pytest.raises(UsageError, match="table/waits waits: join 'nowhere' is not there"):
        app.rebuild("table/waits")
    with pytest.raises(UsageError, match="no resource 'table/profiles'"):
        app.rebuild("table/profiles")


def test_results_of_a_join_are_read_with_the_serializers_of_its_sides() -> None:
    json, raw = TableText(Serializers("json", "json")), TableText(Serializers("raw", "raw"))
    texts = JoinedText(json, raw, json)
    assert texts.value({"left": "YQ==", "right": '{"a":1}'}) == {"left": b"a", "right": {"a": 1}}
    assert texts.value({"left": None, "right": "1"}) == {"left": None, "right": 1}
    assert texts.key('"a"') == "a"
    assert texts.key(None) is None
    assert JoinedText(raw, json, json).key("YQ==") == b"a"


def test_unknown_names_and_a_second_run_are_refused_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(manifests("shop", MANIFESTS))
    app = Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh")
    with pytest.raises(NotFoundError, match="did you mean 'join/rows'"):
        app.run(only=["join/row"])
    with pytest.raises(NotFoundError, match="did you mean 'profiles'"):
        app.table("profile")
    with app.delta.namespace.resource_lock("join/rows"), pytest.raises(AlreadyRunningError, match="already runs"):
        app.run()
    with app.delta.namespace.resource_lock("join/rows"), pytest.raises(AlreadyRunningError, match="already runs"):
        app.rebuild("join/rows")
    assert not is_running(app._spark)


def test_a_session_starts_once_and_again_after_it_failed() -> None:
    reasons: list[str] = []

    def start(reason: str) -> Any:
        reasons.append(reason)
        if len(reasons) == 1:
            msg = "no Java"
            raise SetupError(msg)
        return SimpleNamespace(version="4.2.0")

    spark = lazy_session(start, lambda _: None)
    because(spark, "it runs SQL")
    with pytest.raises(SetupError, match="no Java"):
        _ = spark.version
    assert not is_running(spark)
    assert (spark.version, session_of(spark).version) == ("4.2.0", "4.2.0")
    assert reasons == ["it runs SQL"] * 2
    assert is_running(spark)


def test_rows_and_records_are_tables_of_arrow_and_pandas(tmp_path: Path) -> None:
    text = """
    KasprTable/orders: {}
    KasprTable/items: {schema: "id INT, tags MAP<STRING, INT>", key: [id]}
    KasprJoin/same: {leftTable: orders, rightTable: orders, on: key}
    """
    (tmp_path / "shop.yaml").write_text(manifests("shop", textwrap.dedent(text)))
    app = Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh")
    app.table("orders").put({"a": {"n": 1}, "b": {"n": 2.5, "of": "x"}})
    orders = app.table("orders").to_arrow()
    assert orders.select(["key", "value"]).to_pylist() == [
        {"key": "a", "value": {"n": 1.0, "of": None}},
        {"key": "b", "value": {"n": 2.5, "of": "x"}},
    ]
    app.table("orders").put({"b": {"n": "two"}})
    assert app.table("orders").to_arrow()["value"].to_pylist() == [{"n": "1"}, {"n": '"two"'}]
    assert app.table("items").to_arrow().schema.names == ["id", "tags", "_timestamp"]
    assert app.join("same").to_arrow().column_names == ["key", "left", "right"]
    assert list(app.table("orders").to_pandas()["key"]) == ["a", "b"]
    with pytest.raises(SetupError, match="polars is not installed: pip install polars"):
        app.table("orders").to_polars()


def test_the_result_of_a_join_is_exported_with_the_types_of_its_rows(tmp_path: Path) -> None:
    text = """
    KasprTable/orders: {}
    KasprTable/items:
      schema: "id STRING, price DECIMAL(9,2), tags MAP<STRING,INT>, bits BINARY, of ARRAY<DOUBLE>, at ARRAY<TIMESTAMP>"
      key: [id]
    KasprJoin/bought: {leftTable: orders, rightTable: items, column: item, type: left}
    """
    (tmp_path / "shop.yaml").write_text(manifests("shop", textwrap.dedent(text)))
    app = Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh")
    bought = app.join("bought")
    assert isinstance(bought, JoinHandle)
    assert bought.export(str(tmp_path / "none.parquet")) == 0
    at = datetime(2024, 5, 1, 10, 0, 0, 123456, timezone.utc)
    item = {"id": "lamp", "price": Decimal("1.50"), "tags": [("b", 1)], "bits": b"\x00", "of": [inf], "at": [at]}
    rows = {
        "key": ['"b"', "10", "9", "2024-05-01"],
        "left": [
            '{"n":1,"of":[1,{"a":[]}],"no":{},"d":{"x.y":1,"x":{"y":2}},"s":"\\ud800"}',
            '{"n":"x","of":null}',
            "not JSON",
            "{}",
        ],
        "right": [item, None, None, None],
        "timestamp": [at] * 4,
    }
    plan = bought.join
    layout = joined_layout(RESULT, *app.plan.column_types(plan))
    tables = delta_rs(app.delta.namespace)
    tables.ensure(plan.result, layout)
    tables.append(plan.result, pa.table(rows, arrow_schema(layout.columns)))
    assert bought.export(str(tmp_path / "bought.parquet")) == 4
    nothing = dict.fromkeys(("n", "of", "no", "d", "s"))
    dotted = {"x.y": 1, "x": {"y": 2}}
    left = {"n": "1", "of": ["1", '{"a":[]}'], "no": "{}", "d": dotted, "s": "?"}
    assert read_table(tmp_path / "bought.parquet").drop_columns("timestamp").to_pylist() == [
        {"key": "9", "left": None, "right": None},
        {"key": "10", "left": {**nothing, "n": '"x"'}, "right": None},
        {"key": '"b"', "left": left, "right": item},
        {"key": None, "left": nothing, "right": None},
    ]
    assert bought.export(str(tmp_path / "bought.csv")) == 4
    with (tmp_path / "bought.csv").open(newline="") as lines:
        found = {row["left.s"]: row for row in csv.DictReader(lines)}
    assert found["?"] == {
        "key": '"b"',
        "left.n": "1",
        "left.of": '["1","{\\"a\\":[]}"]',
        "left.no": "{}",
        "left.s": "?",
        "left.d": '{"x.y":1,"x":{"y":2}}',
        "right.id": "lamp",
        "right.price": "1.50",
        "right.tags": '{"b":1}',
        "right.bits": "AA==",
        "right.of": '["Infinity"]',
        "right.at": '["2024-05-01T10:00:00.123456Z"]',
        "timestamp": "2024-05-01 10:00:00.123456Z",
    }


def test_rows_are_printed_with_the_json_of_their_types() -> None:
    at = datetime.fromisoformat("2024-07-01T10:00:00")
    row = {"id": 1, "at": at, "utc": at.replace(tzinfo=timezone.utc), "bits": b"abcd", "of": [inf, 1.5]}
    (printed,) = (json.loads(json_line(one)) for one in json_rows([(1, row)]))
    assert printed == {
        "key": 1,
        "value": {
            "id": 1,
            "at": "2024-07-01T10:00:00",
            "utc": "2024-07-01T10:00:00Z",
            "bits": "YWJjZA==",
            "of": ["Infinity", 1.5],
        },
    }
    assert list(json_rows([(b"a", {"left": b"b", "right": {"x": b"c"}})])) == [
        {"key": b"a", "value": {"left": b"b", "right": {"x": "Yw=="}}}
    ]


def test_a_date_that_python_does_not_have_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(manifests("shop", 'KasprTable/items: {schema: "id INT, d DATE", key: [id]}'))
    app = Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh")
    table = pa.table({"id": pa.array([1], pa.int32()), "d": pa.array([4_000_000], pa.date32())})
    app.table("items").put({2: {"id": 2}})
    delta_rs(app.delta.namespace).append("items", table)
    with pytest.raises(SerializationError, match="column d has a date or a time that is not in the years 1 to 9999"):
        app.table("items").rows()


def test_a_typed_table_is_exported_as_its_columns(tmp_path: Path) -> None:
    schema = "id INT, price DECIMAL(9, 2), tags MAP<STRING, INT>, bits BINARY"
    text = f'KasprTable/items: {{schema: "{schema}", key: [id]}}'
    (tmp_path / "shop.yaml").write_text(manifests("shop", text))
    app = Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh")
    items = app.table("items")
    assert items.export(str(tmp_path / "none.csv")) == 0
    typed = items.table.plan.typed
    assert typed is not None
    values: list[dict[str, Any]] = [{"id": 10, "price": Decimal("1.50"), "tags": {"a": 1}, "bits": b"\x00"}, {"id": 9}]
    rows = arrow_rows_of(typed.columns, values)
    write_columns(rows, typed.columns, str(tmp_path / "items.csv"), None)
    lines = (tmp_path / "items.csv").read_text().splitlines()
    assert lines == ['"id","price","tags","bits"', '10,1.50,"{""a"":1}","AA=="', "9,,,"]
    assert write_columns(rows, typed.columns, str(tmp_path / "items.parquet"), None) == 2
    assert read_table(tmp_path / "items.parquet")["tags"].to_pylist() == [[("a", 1)], None]


@pytest.mark.usefixtures("tables_with_own_ids")  # a copy is no creation, and two at once fail
def test_several_writers_make_one_new_topic_and_each_record_is_there_once(tmp_path: Path) -> None:
    text = "KasprTable/t: {}\nKasprJoin/j: {leftStream: {topic: new}, rightTable: t, on: key, outputChannel: seen}"
    (tmp_path / "shop.yaml").write_text(manifests("shop", text))
    apps = [Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh") for _ in range(4)]

    def produce(n: int) -> None:
        apps[n % 4].topic("new").produce([{"key": n, "value": n}, {"key": n, "value": -n}])

    with ThreadPoolExecutor(4) as at_once:
        list(at_once.map(produce, range(1, 13)))
    topic: Any = apps[0].topic("new")
    records = topic.records()
    assert sorted(one["value"] for one in records) == sorted([*range(1, 13), *range(-12, 0)])
    offsets = [one["offset"] for one in records]
    assert offsets == sorted(set(offsets))
    assert [one["value"] for one in topic.records(tail=3)] == [one["value"] for one in records[-3:]]
    assert topic.records(after=offsets[20]) == records[21:]
    assert topic.records(1, key=5)[0]["value"] == 5
    assert topic.end >= offsets[-1]


def test_a_session_that_a_write_needs_starts_without_the_lock_of_the_table(tmp_path: Path) -> None:
    text = 'KasprTable/items: {schema: "id INT, tags MAP<STRING, INT>", key: [id]}'
    (tmp_path / "shop.yaml").write_text(manifests("shop", text))
    app = Application.open(tmp_path / "shop.yaml", warehouse=tmp_path / "wh")
    prepared: list[str] = []

    def prepare(_: Any) -> None:
        """Registers the table in another thread, as a session does that starts."""
        with ThreadPoolExecutor(1) as other:
            layout = app._layout("items")
            assert layout is not None
            other.submit(app.delta.create, running, "items", layout).result(timeout=30)
        prepared.append(reasons[-1])

    def start(reason: str) -> Any:
        reasons.append(reason)
        return running

    reasons: list[str] = []
    running: Any = SimpleNamespace(sql=lambda _: None)
    app._spark = lazy_session(start, prepare)
    with pytest.raises(AttributeError, match="createDataFrame"):
        app.table("items").put({1: {"tags": {"a": 1}}})
    assert prepared == ["delta-rs does not merge into 'items' (docs/design/native.md)"]
