from __future__ import annotations

import json
from collections.abc import Callable

from kaspr_delta.plan.definition import Plan
from kaspr_delta.plan.explain import as_json, as_text
from kaspr_delta.plan.mermaid import as_mermaid

COPY = (
    "KasprAgent",
    "copy",
    "input: {topic: {name: a}}\noutput: {topics: [{nameSelector: {python: 'f = lambda v: v'}}]}",
)


def test_the_json_form_is_plain_data(plan: Callable[..., Plan]) -> None:
    encoded = as_json(plan(COPY))
    assert json.loads(json.dumps(encoded)) == encoded
    assert encoded["agents"][0]["outputs"][0]["nameSelector"]["entrypoint"] == "f"


def test_what_waits_is_told_with_its_reason(plan: Callable[..., Plan]) -> None:
    built = plan(("KasprAgent", "reader", "input: {channel: {name: nothing}}"))
    reason = "no join writes the channel 'nothing'"
    assert as_json(built)["waiting"] == [{"resource": "agent/reader", "reason": reason}]
    assert f"  agent/reader  {reason}" in as_text(built)
    assert f"waits: {reason}" in as_mermaid([built])


def test_a_topic_named_by_a_function_is_said_so(plan: Callable[..., Plan]) -> None:
    assert "copy  topic a -> topic by function" in as_text(plan(COPY))


def test_names_that_differ_only_by_signs_are_different_nodes(plan: Callable[..., Plan]) -> None:
    spec = "input: {topic: {name: %s}}"
    drawn = as_mermaid([plan(("KasprAgent", "one", spec % "a-b"), ("KasprAgent", "two", spec % "a-c_d"))])
    assert 'topic_a_b[/"a-b"/]' in drawn
    assert 'topic_a_c_5f_d[/"a-c_d"/]' in drawn
