from __future__ import annotations

import json
from collections.abc import Callable

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.explain.explain import as_json, as_text
from kaspr_delta.plan.explain.mermaid import as_mermaid

COPY = (
    "KasprAgent",
    "copy",
    "input: {topic: {name: a}}\noutput: {topics: [{nameSelector: {python: 'f = lambda v: v'}}]}",
)


def test_the_json_form_is_plain_data(plan: Callable[..., Plan]) -> None:
    encoded = as_json(plan(COPY))
    assert json.loads(json.dumps(encoded)) == encoded
    assert encoded["agents"][0]["outputs"][0]["nameSelector"]["entrypoint"] == "f"


def test_a_waiting_resource_is_shown_with_its_reason(plan: Callable[..., Plan]) -> None:
    built = plan(("KasprAgent", "reader", "input: {channel: {name: nothing}}"))
    reason = "no join writes the channel 'nothing'"
    assert as_json(built)["waiting"] == [{"resource": "agent/reader", "reason": reason}]
    assert f"  agent/reader  {reason}" in as_text(built)
    assert f"waits: {reason}" in as_mermaid([built])


def test_a_topic_named_by_a_function_is_shown_as_such(plan: Callable[..., Plan]) -> None:
    assert "copy  topic a -> topic by function" in as_text(plan(COPY))


TABLE = ("KasprTable", "t", "description: Rows")
VIEWS = ("KasprJoin", "views", "leftStream: {topic: a}\nrightTable: t\non: key\npending: {ttl: 90s}\ntype: left")
MADE = ("KasprTable", "made", "from: {join: views}\ncount: {}\nwindow: {tumbling: {size: 1m}, grace: 5s, emit: close}")


def test_the_text_shows_stream_joins_their_ttl_and_made_tables(plan: Callable[..., Plan]) -> None:
    text = as_text(plan(TABLE, VIEWS, MADE))
    assert "  views  topic a left join t on key, waiting for it up to 90s -> channel views-channel" in text
    assert "tables made from something\n  made  channel views-channel -> count" in text
    assert "windows of 1m by stream time, grace 5s, shown once they close" in text
    assert "  1  join/views\n  2  table/made" in text


def test_the_json_form_names_the_shape_of_a_join(plan: Callable[..., Plan]) -> None:
    encoded = as_json(plan(TABLE, VIEWS, MADE))
    assert encoded["joins"][0]["shape"] == "stream-table"
    assert encoded["aggregations"][0]["origin"]["input"]["join"] == "views"
    assert "joined" not in encoded["tables"][0]


def test_a_result_that_is_read_as_a_table_is_not_drawn_with_its_channel(plan: Callable[..., Plan]) -> None:
    both = ("KasprJoin", "both", "leftTable: t\nrightTable: t\non: key")
    rows, records = (
        ("KasprTable", name, f"from: {{{name}: {of}}}\ncount: {{}}")
        for name, of in (("join", "both"), ("channel", "both-channel"))
    )
    drawn = as_mermaid([plan(TABLE, both, rows, records)])
    assert "join_both --> table_join" in drawn
    assert 'join_both -- "both-channel" --> table_channel' in drawn


def test_a_table_that_waits_is_drawn_once(plan: Callable[..., Plan]) -> None:
    drawn = as_mermaid([plan(("KasprTable", "made", "from: {join: nothing}\ncount: {}"))])
    assert drawn.count("table_made") == 1
    assert "waits: join 'nothing' is not there" in drawn


def test_a_task_that_waits_is_drawn(plan: Callable[..., Plan]) -> None:
    step = "{name: s, tables: [{name: nowhere, paramName: t}], map: {python: 'f = lambda t: t'}}"
    drawn = as_mermaid([plan(("KasprTask", "task", f"processors: {{pipeline: [s], operations: [{step}]}}"))])
    assert "task_task(\"task waits: table 'nowhere' is not there\"):::waiting" in drawn


def test_a_web_view_that_waits_is_drawn(plan: Callable[..., Plan]) -> None:
    step = "{name: s, tables: [{name: nowhere, paramName: t}], map: {python: 'f = lambda r, t: t'}}"
    spec = f"request: {{method: GET, path: /v}}\nprocessors: {{pipeline: [s], operations: [{step}]}}"
    drawn = as_mermaid([plan(("KasprWebView", "v", spec))])
    assert "webview_v>\"v waits: table 'nowhere' is not there\"]:::waiting" in drawn


def test_names_that_differ_only_by_signs_are_different_nodes(plan: Callable[..., Plan]) -> None:
    spec = "input: {topic: {name: %s}}"
    drawn = as_mermaid([plan(("KasprAgent", "one", spec % "a-b"), ("KasprAgent", "two", spec % "a-c_d"))])
    assert 'topic_a_b[/"a-b"/]' in drawn
    assert 'topic_a_c_5f_d[/"a-c_d"/]' in drawn
