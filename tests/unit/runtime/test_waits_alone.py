"""Opening an application: a table or view that cannot be made lets its resource wait, and no other one."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from kaspr_delta import Application
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.names import value_view
from kaspr_delta.runtime.failures import made_to_wait
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.layout import CHANGE_FEED
from kaspr_delta.storage.namespace import UnityNamespace
from kaspr_delta.storage.plan_tables import tables_of
from kaspr_delta.storage.spark.description import Description
from tests.manifests import manifests

TELLS = """processors:
    pipeline: [tell]
    operations: [{{name: tell, tables: [{{name: {}, paramName: t}}], map: {{python: "f = lambda value, t: value"}}}}]
"""
MANIFESTS = f"""
KasprApp/shop: {{topics: {{bought: {{files: {{path: /data/bought, format: json}}}}}}, config: {{feedRetention: 90d}}}}
KasprTable/other: {{}}
KasprTable/plain: {{}}
KasprTable/typed: {{schema: "id STRING, `a b` INT", key: id}}
KasprTable/source: {{source: {{table: /data/source, key: [id]}}}}
KasprTable/made: {{from: {{table: plain}}, count: {{}}}}
KasprTable/per-topic: {{from: {{topic: bought}}, count: {{}}}}
KasprJoin/by-foreign-key: {{leftTable: plain, rightTable: source, column: id, type: left}}
KasprJoin/selected: {{leftTable: typed, rightTable: source, column: id, select: {{columns: {{x: right.id}}}}}}
KasprJoin/by-key: {{leftTable: plain, rightTable: typed, on: key, type: inner}}
KasprJoin/of-stream: {{leftStream: {{topic: bought}}, rightTable: plain, on: key, type: left, pending: {{ttl: 1m}}}}
KasprJoin/of-rows:
  leftStream: {{topic: bought}}
  rightTable: plain
  type: left
  rightExtractor: {{python: "f = lambda value: value"}}
KasprJoin/of-streams:
  leftStream: {{topic: bought}}
  rightStream: {{topic: sold}}
  on: key
  type: inner
  window: {{before: 0s, after: 1m, grace: 0s}}
KasprJoin/alone: {{leftTable: other, rightTable: other, on: key, type: inner}}
KasprAgent/writer:
  input: {{topic: {{name: sold}}}}
  output: {{topics: [{{name: told}}]}}
  {TELLS.format("typed")}
KasprTask/report:
  schedule: {{interval: 1m}}
  {TELLS.format("other")}
KasprWebView/shown:
  name: shown
  request: {{method: GET, path: /shown}}
  {TELLS.format("plain")}
"""
((PLAN,), FINDINGS) = build_plans(load_text(manifests("shop", MANIFESTS), "m.yaml"))
SOURCE = "/data/source"
OWNERS = {table: ref for ref, table, _ in tables_of(PLAN)} | {SOURCE: ResourceRef("table", "source")}
VIEWS = {value_view(ref.name): ref for ref in [*(one.ref for one in PLAN.tables), *(one.ref for one in PLAN.joins)]}
TYPED_JOINS = ("by_foreign_key", "selected", "by_key")
LAYOUTS = {table: layout.columns for _, table, layout in tables_of(PLAN)}
RETURNS: dict[str, Any] = {
    "describe": Description("EXTERNAL", "delta", "", f"[{CHANGE_FEED}=true]"),
    "policies": (),
    "named_key": None,
}


@dataclass
class Breaking:
    """Fake tables. One operation on one table or view fails. The joins of typed tables have no tables yet."""

    operation: str = ""
    victim: str = ""
    called: list[str] = field(default_factory=list)
    namespace: UnityNamespace = field(default_factory=lambda: UnityNamespace("main", "shop", "/nowhere"))

    def __getattr__(self, operation: str) -> Any:
        def call(_: Any, name: str = "", *__: Any) -> Any:
            if (operation, name) == (self.operation, self.victim):
                self.called.append(name)
                msg = "the log is corrupt\n\tat a.b.C(D.java:1)"
                raise RuntimeError(msg)
            if operation == "columns":
                return columns_of(LAYOUTS.get(name, "id STRING"))
            if operation in RETURNS:
                return RETURNS[operation]
            return operation != "exists" or name == self.victim or not any(join in name for join in TYPED_JOINS)

        return call


def opened(delta: Breaking) -> Application:
    app = Application(cast("Any", None), cast("Any", delta), PLAN)
    app._refresh()
    return app


# Nothing asks for these: tables without a feed have no retention of one, and typed rows and streams no view of values.
UNASKED = {
    "set_properties": {
        *("ingest__bought", "aggregation__made", "contributions__made", "group_times__made", "aggregation__per_topic"),
        *("subscriptions__by_foreign_key", "index__of_rows", "waiting__of_stream", "buffer__of_streams"),
        *("subscriptions__selected", "log__writer", "task__report"),
    },
    "create_view": {"v_source", "v_typed", "v_of_rows", "v_of_stream", "v_of_streams", "v_selected"},
}
CASES = [
    *((operation, table) for operation in ("create", "set_properties") for table in LAYOUTS),
    *(("create_view", view) for view in VIEWS),
    *((operation, SOURCE) for operation in ("describe", "policies", "columns")),
    *((operation, table) for operation in ("exists", "columns") for table in ("typed", "by_key")),
]


def test_nothing_waits_while_nothing_fails() -> None:
    assert not [finding for finding in FINDINGS if finding.severity is Severity.ERROR], FINDINGS
    assert opened(Breaking()).plan.waiting == ()


@pytest.mark.parametrize(("operation", "victim"), CASES)
def test_a_table_or_view_that_cannot_be_made_lets_only_its_resource_and_its_readers_wait(
    operation: str, victim: str
) -> None:
    delta = Breaking(operation, victim)
    ref = VIEWS[victim] if operation == "create_view" else OWNERS[victim]
    waiting = dict(opened(delta).plan.waiting)
    assert bool(delta.called) == (victim not in UNASKED.get(operation, ()))
    if not delta.called:
        assert not waiting
        return
    assert waiting.pop(ref) == "RuntimeError: the log is corrupt"
    assert all(reason == f"waits for {ref}" for reason in waiting.values())
    apart = {ResourceRef("join", "alone"), ResourceRef("table", "other"), ResourceRef("task", "report")}
    assert ref in apart or not apart & waiting.keys()


@pytest.mark.parametrize(
    ("table", "waits"), [("channel__selected_channel", False), ("selected", True), ("typed", True)]
)
def test_a_column_that_an_older_version_wrote_counts_only_among_the_columns_of_rows(
    table: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LAYOUTS, table, f"{LAYOUTS[table]}, older INT")
    reasons = dict(opened(Breaking(victim=table)).plan.waiting)
    assert ("column 'older' is gone" in reasons.get(OWNERS[table], "")) is waits


def test_those_that_read_or_write_a_table_or_topic_wait_for_it() -> None:
    def readers(table: str) -> set[str]:
        return {str(ref) for ref, _ in opened(Breaking("create", table)).plan.waiting}

    assert readers("plain") >= {"table/plain", "table/made", "join/by-foreign-key", "join/of-rows", "webview/shown"}
    assert readers("typed") == {"table/typed", "join/selected", "join/by-key", "agent/writer"}
    assert readers("topic__sold") == {"topic/sold", "join/of-streams", "agent/writer"}
    assert readers("topic__told") == {"topic/told", "agent/writer"}
    assert readers("log__writer") == {"agent/writer"}
    assert {"topic/bought", "table/per-topic", "join/of-stream", "join/of-rows", "join/of-streams"} == readers(
        next(table for table, ref in OWNERS.items() if str(ref) == "topic/bought")
    )


def test_a_full_disk_is_no_reason_to_wait() -> None:
    with pytest.raises(OSError, match="No space left"), made_to_wait({}, ResourceRef("table", "t")):
        raise OSError(errno.ENOSPC, "No space left on device", "/wh/t")
