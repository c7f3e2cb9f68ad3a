from __future__ import annotations

import json

import pytest

from kaspr_delta.plan.explain.explain import as_json, as_text
from kaspr_delta.plan.explain.mermaid import as_mermaid
from tests.unit.plan.shop import Manifest, plan

COPY = (
    "KasprAgent",
    "copy",
    "input: {topic: {name: a}}\noutput: {topics: [{nameSelector: {python: 'f = lambda v: v'}}]}",
)


def test_the_json_form_is_plain_data() -> None:
    encoded = as_json(plan(COPY))
    assert json.loads(json.dumps(encoded)) == encoded
    assert encoded["agents"][0]["outputs"][0]["nameSelector"]["entrypoint"] == "f"


def test_a_topic_named_by_a_function_is_shown_as_such() -> None:
    assert "copy  topic a -> topic by function" in as_text(plan(COPY))


def test_a_result_that_is_read_as_a_table_is_not_drawn_with_its_channel() -> None:
    both = ("KasprJoin", "both", "leftTable: t\nrightTable: t\non: key")
    rows, records = (
        ("KasprTable", name, f"from: {{{name}: {of}}}\ncount: {{}}")
        for name, of in (("join", "both"), ("channel", "both-channel"))
    )
    drawn = as_mermaid([plan(("KasprTable", "t", "description: Rows"), both, rows, records)])
    assert "join_both --> table_join" in drawn
    assert 'join_both -- "both-channel" --> table_channel' in drawn


STEP = "processors: {pipeline: [s], operations: [{name: s, tables: [{name: no, paramName: t}], map: {python: 'CODE'}}]}"


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (("KasprTable", "made", "from: {join: no}\ncount: {}"), "join 'no' is not there"),
        (("KasprAgent", "reader", "input: {channel: {name: no}}"), "no join writes the channel 'no'"),
        (("KasprTask", "task", STEP.replace("CODE", "f = lambda t: t")), "table 'no' is not there"),
        (
            (
                "KasprWebView",
                "v",
                "request: {method: GET, path: /v}\n" + STEP.replace("CODE", "f = lambda r, t: t"),
            ),
            "table 'no' is not there",
        ),
    ],
)
def test_a_resource_that_waits_is_shown_once_with_its_reason(manifest: Manifest, reason: str) -> None:
    built = plan(manifest)
    kind, name = manifest[0].removeprefix("Kaspr").lower(), manifest[1]
    assert as_json(built)["waiting"] == [{"resource": f"{kind}/{name}", "reason": reason}]
    assert f"  {kind}/{name}  {reason}" in as_text(built)
    (node,) = (line for line in as_mermaid([built]).splitlines() if line.startswith(f"  {kind}_{name}"))
    assert f"{name} waits: {reason}" in node
    assert node.endswith(":::waiting")


def test_names_that_differ_only_by_signs_are_different_nodes() -> None:
    spec = "input: {topic: {name: %s}}"
    drawn = as_mermaid([plan(("KasprAgent", "one", spec % "a-b"), ("KasprAgent", "two", spec % "a-c_d"))])
    assert 'topic_a_b[/"a-b"/]' in drawn
    assert 'topic_a_c_5f_d[/"a-c_d"/]' in drawn
