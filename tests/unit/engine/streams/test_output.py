from __future__ import annotations

import zlib
from typing import Any

import pytest

from kaspr_delta.engine.agent.stateless import for_spark
from kaspr_delta.engine.streams.effect import Effect, to_arrow
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.plan.definition.resources import SendPlan
from tests.unit.engine.agent.agents import (
    NOON,
    executor,
    mapped,
    problem_of,
    record,
    send_to,
    sending,
    sent,
    table_state,
)

YES, NO = "def p(v): return True", "def p(v): return False"
METADATA = {
    "topic": "side",
    "partition": 0,
    "topic_partition": ["side", 0],
    "offset": -1,
    "timestamp": NOON / 1_000_000,
    "timestamp_type": 0,
}


def one_send(plan: SendPlan, value: Any = 1, **fields: Any) -> Effect:
    (effect,) = executor(outputs=[plan]).process(record(value, **fields))
    assert effect.kind == "send"
    return effect


@pytest.mark.parametrize(
    ("predicate", "ack", "pass_through", "after"),
    [
        (YES, False, False, []),
        (YES, True, False, [METADATA]),
        (YES, False, True, ["v"]),
        (YES, True, True, [["v", METADATA]]),
        *(
            (NO, ack, pass_through, ["v"] if pass_through else [])
            for ack in (False, True)
            for pass_through in (False, True)
        ),
    ],
)
def test_ack_and_pass_through_decide_the_value_after_a_topicsend(
    predicate: str, ack: bool, pass_through: bool, after: list[Any]
) -> None:
    operation = sending(send_to("side", ack=ack, pass_through=pass_through, predicate=predicate))
    effects = executor(operation).process(record("v"))
    assert (sent(effects, "side"), sent(effects)) == (["v"] if predicate == YES else [], after)


def test_selectors_of_a_topicsend_may_take_the_tables_of_the_operation() -> None:
    prefs = table_state({'"u"': '"sms"'}, name="prefs")
    plan = send_to("side", key_selector="def k(v, prefs): return prefs[v]", predicate="def p(v): return True")
    (effect,) = executor(sending(plan, ["prefs"]), tables=[prefs]).process(record("u"))
    assert effect.key == b'"sms"'


def test_outputs_are_independent_and_in_their_order() -> None:
    big, small = (
        send_to(name, predicate=f"def p(v): return v {rule}") for name, rule in (("big", "> 1"), ("small", "<= 1"))
    )
    agent = executor(mapped("def f(v): yield from (1, 2)"), outputs=[send_to("all"), big, small])
    found = [(effect.target, effect.value) for effect in agent.process(record(0))]
    assert found == [("all", b"1"), ("small", b"1"), ("all", b"2"), ("big", b"2")]


def test_a_failing_send_fails_the_event_and_withholds_earlier_sends() -> None:
    outputs = [send_to("first"), send_to("second", key_selector="def k(v): return v['no']")]
    assert "KeyError" in problem_of(executor(outputs=outputs).process(record({})))
    operation = sending(send_to("side", value_selector="def s(v): return v['no']", pass_through=True))
    assert "KeyError" in problem_of(executor(operation).process(record({})))


def test_selectors_all_see_the_pipeline_value() -> None:
    effect = one_send(
        send_to(
            key_selector="def k(v): return v['id']",
            value_selector="def s(v): return {'only': v['name']}",
            predicate="def p(v): return 'name' in v",
            partition_selector="def n(v): return v['part']",
            headers_selector="def h(v): return {'id': v['id']}",
        ),
        {"id": "K", "name": "N", "part": 3},
    )
    assert effect == Effect("send", "out", b'"K"', b'{"only":"N"}', [{"key": "id", "value": b"K"}], NOON, 3)


@pytest.mark.parametrize("name", ["context", "made_in_init"])
def test_selectors_see_neither_context_nor_names_of_init(name: str) -> None:
    agent = executor(outputs=[send_to(key_selector=f"def k(v): return {name}")], init="made_in_init = 1")
    assert f"name '{name}' is not defined" in problem_of(agent.process(record(1)))


def test_the_source_of_a_selector_is_executed_once() -> None:
    agent = executor(outputs=[send_to(key_selector="seen = []\ndef k(v):\n  seen.append(v)\n  return len(seen)")])
    assert [agent.process(record(1))[0].key for _ in range(3)] == [b"1", b"2", b"3"]


def test_a_predicate_is_called_before_the_selectors_and_awaited() -> None:
    for predicate in (NO, "async def p(v): return False"):
        plan = send_to(None, predicate=predicate, name_selector="def n(v): raise ValueError")
        assert executor(outputs=[plan]).process(record(1)) == []


def test_selectors_and_serializers_make_the_parts_of_a_send() -> None:
    effect = one_send(send_to(value_selector="def s(v): return None"), key="input key")
    assert (effect.key, effect.value, effect.partition) == (None, None, 0)
    effect = one_send(send_to(key="raw", value="binary", key_selector="def k(v): return v"), "ab")
    assert (effect.key, effect.value, effect.timestamp) == (b"ab", b"YWI=", NOON)
    assert one_send(send_to(None, name_selector="def n(v): return 'to-' + v"), "eu").target == "to-eu"


NO_NAMES = [None, "", 5, b"x", "a b", "a/b", "\ud800", "x" * 250]
NO_PARTITIONS = ["'1'", "1.5", "-1", "2**31", "[]"]
NO_HEADERS = ["{'\\ud800': 1}", "{'a': '\\ud800'}", "['ab', 'c']", "5"]


@pytest.mark.parametrize(
    ("selector", "result", "detail"),
    [
        *(("name_selector", repr(name), "nameSelector must return a topic's name") for name in NO_NAMES),
        *(("partition_selector", partition, "Error") for partition in NO_PARTITIONS),
        *(("headers_selector", headers, "Error") for headers in NO_HEADERS),
    ],
)
def test_a_result_of_a_selector_that_cannot_be_written_fails_the_event(selector: str, result: str, detail: str) -> None:
    topic = None if selector == "name_selector" else "out"
    given: dict[str, Any] = {selector: f"def s(v): return {result}"}
    effects = executor(outputs=[send_to(topic, **given)]).process(record(1))
    assert detail in problem_of(effects)
    assert to_arrow(effects).num_rows == 1


def test_the_key_decides_the_partition_within_the_topics_number() -> None:
    chosen = one_send(send_to(key_selector="def k(v): return 'K'", partition_selector="def n(v): return None"))
    assert chosen.partition == zlib.crc32(b'"K"') % 4
    topics = Topics({"known": 3}, 8)
    assert all(topics.partition("known", str(n).encode()) < 3 for n in range(50))
    assert {topics.partition("other", str(n).encode()) for n in range(100)} == set(range(8))
    assert topics.partition("known", None) == 0


@pytest.mark.parametrize(
    ("headers", "written"),
    [
        ("{'a': 'x', 'b': b'y', 'c': None, 'd': 1}", [("a", b"x"), ("b", b"y"), ("c", None), ("d", b"1")]),
        ("[('a', 'x'), ('a', 'y')]", [("a", b"x"), ("a", b"y")]),
        ("{}", None),
        ("None", None),
    ],
)
def test_headers_are_a_mapping_or_pairs(headers: str, written: list[tuple[str, bytes]] | None) -> None:
    effect = one_send(send_to(headers_selector=f"def h(v): return {headers}"))
    expected = None if written is None else [{"key": key, "value": value} for key, value in written]
    assert effect.headers == expected
    assert to_arrow([effect]).column("headers").to_pylist() == [expected]


def test_effects_are_numbered_in_their_order() -> None:
    table = to_arrow(executor(mapped("def f(v): yield from 'abc'")).process(record(0)), 10)
    assert table.column("seq").to_pylist() == [10, 11, 12]
    assert table.column("value").to_pylist() == [b'"a"', b'"b"', b'"c"']
    assert to_arrow([]).num_rows == 0


def test_workers_return_headers_and_problems_as_text_in_one_column() -> None:
    problem = {"reason": "event failed", "detail": "why", "value": None}
    effects = [
        Effect("send", "t", None, b"v", [{"key": "n", "value": b"\xff"}], NOON, 3),
        Effect("send", "t", b"k", None),
        Effect("dead-letter", "in", None, b"v", problem=problem),
    ]
    rows = for_spark(to_arrow(effects, 7)).to_pylist()
    assert [row.pop("about") for row in rows] == [
        '[{"key": "n", "value": "/w=="}]',
        None,
        '{"reason": "event failed", "detail": "why", "value": null}',
    ]
    assert [list(row) for row in rows] == [["kind", "target", "key", "value", "timestamp", "partition", "seq"]] * 3
    assert [(row["seq"], row["partition"]) for row in rows] == [(7, 3), (8, None), (9, None)]
