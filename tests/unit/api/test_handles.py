"""Handles of tables, topics and joins, as far as they need no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kaspr_delta.api.join import JoinHandle, StreamJoinHandle
from kaspr_delta.api.topic import ChangelogHandle
from kaspr_delta.application import Application
from kaspr_delta.cli.table import handle_of, has_raw_keys
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.joined_text import JoinedText
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables
from tests.manifests import plan_of

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
