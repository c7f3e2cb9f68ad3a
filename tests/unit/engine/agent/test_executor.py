from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from typing import Any

import pytest

from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.table_state import Written
from kaspr_delta.engine.streams.effect import to_arrow
from kaspr_delta.engine.streams.event import ChannelDecoder, TopicDecoder
from kaspr_delta.functions.module import module_name
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.joined_text import JoinedText
from kaspr_delta.serde.table_text import TableText
from tests.unit.engine.agent.agents import (
    NOON,
    executor,
    filtered,
    mapped,
    problem_of,
    record,
    send_to,
    sending,
    sent,
    table_state,
)


def outcome(agent: Executor, value: Any) -> list[Any]:
    return sent(agent.process(record(value)))


def test_without_a_pipeline_input_goes_to_output_unchanged() -> None:
    assert outcome(executor(), {"a": [1]}) == [{"a": [1]}]


def test_without_output_values_are_discarded() -> None:
    assert executor(mapped("def f(v): return v"), outputs=[]).process(record(1)) == []


def test_operations_follow_one_another() -> None:
    agent = executor(mapped("def f(v): return v + 1"), mapped("def f(v): return v * 10"))
    assert outcome(agent, 1) == [20]


def test_an_operation_may_stand_in_the_pipeline_twice() -> None:
    double = mapped("def f(v): return v * 2")
    assert outcome(executor(double, double), 1) == [4]


@pytest.mark.parametrize("value", [[1, 2], [], "ab", {"a": 1}, True, 0, "", None])
def test_any_result_of_a_map_is_one_value(value: Any) -> None:
    assert outcome(executor(mapped(f"def f(v): return {value!r}")), 1) == [value]


def test_none_goes_on_to_the_next_operation() -> None:
    agent = executor(mapped("def f(v): return None"), mapped("def f(v): return v is None"))
    assert outcome(agent, 1) == [True]


@pytest.mark.parametrize("answer", ["True", "1", "'x'", "[0]"])
def test_a_filter_with_a_truthy_result_passes_the_value_unchanged(answer: str) -> None:
    assert outcome(executor(filtered(f"def f(v): return {answer}")), {"a": 1}) == [{"a": 1}]


@pytest.mark.parametrize("answer", ["False", "0", "None", "''", "[]"])
def test_a_filter_with_a_falsy_result_drops_the_value(answer: str) -> None:
    assert outcome(executor(filtered(f"def f(v): return {answer}")), 1) == []


def test_an_async_filter_is_awaited() -> None:
    assert outcome(executor(filtered("async def f(v): return v > 1")), 1) == []


def test_a_filter_drops_its_branch_only() -> None:
    agent = executor(mapped("def f(v): yield from (1, 2, 3)"), filtered("def f(v): return v != 2"))
    assert outcome(agent, 0) == [1, 3]


@pytest.mark.parametrize("source", ["def f(v): yield from range(3)", "async def f(v):\n  for n in range(3): yield n"])
@pytest.mark.parametrize("place", [0, 1])
def test_generators_fan_out_at_any_place_in_the_pipeline(source: str, place: int) -> None:
    pipeline = [mapped("def f(v): return v")]
    pipeline.insert(place, mapped(source))
    assert outcome(executor(*pipeline), 9) == [0, 1, 2]


def test_an_empty_generator_ends_the_branch() -> None:
    assert outcome(executor(mapped("def f(v):\n  return\n  yield")), 1) == []


def test_a_generator_is_run_to_its_end() -> None:
    counts = table_state()
    agent = executor(mapped("def f(v, counts):\n  yield 1\n  counts['after'] = 1", ["counts"]), tables=[counts])
    assert outcome(agent, 0) == [1]
    assert counts.written == {'"after"': Written("1", NOON)}


def test_effects_are_grouped_by_the_values_of_the_first_operation() -> None:
    agent = executor(
        mapped("def f(v):\n  yield 'a'\n  yield 'b'"),
        mapped("def f(v):\n  yield v + '1'\n  yield v + '2'"),
        sending(send_to("side", pass_through=True)),
    )
    effects = agent.process(record(0))
    assert [(effect.target, effect.value) for effect in effects] == [
        ("side", b'"a1"'),
        ("side", b'"a2"'),
        ("out", b'"a1"'),
        ("out", b'"a2"'),
        ("side", b'"b1"'),
        ("side", b'"b2"'),
        ("out", b'"b1"'),
        ("out", b'"b2"'),
    ]


def test_init_runs_once_and_operations_see_its_names() -> None:
    agent = executor(
        mapped("def f(v):\n  seen.append(v)\n  return len(seen) + offset()"),
        init="seen = []\ndef offset(): return 100",
    )
    assert [outcome(agent, 7), outcome(agent, 7)] == [[101], [102]]


def test_an_event_that_never_ends_is_a_dead_letter_and_the_next_goes_on() -> None:
    counts = table_state()
    source = "def f(v, counts):\n  counts['x'] = 1\n  while v: pass\n  return v"
    agent = replace(executor(mapped(source, ["counts"]), tables=[counts]), timeout=0.1)
    assert "longer than its application's config.eventTimeout allows" in problem_of(agent.process(record(1)))
    assert counts.written == {}
    assert outcome(agent, 0) == [0]


def test_executors_of_one_agent_share_one_run_of_init() -> None:
    operation, init = mapped("def f(v):\n  seen.append(v)\n  return len(seen)"), "seen = []"
    first, second = (executor(operation, init=init, identity="test/the same") for _ in range(2))
    assert [outcome(first, 1), outcome(second, 1)] == [[1], [2]]


def test_agents_do_not_share_the_names_of_init() -> None:
    operation, init = mapped("def f(v):\n  seen.append(v)\n  return len(seen)"), "seen = []"
    first, second = (executor(operation, init=init) for _ in range(2))
    assert [outcome(first, 1), outcome(second, 1)] == [[1], [1]]


def test_init_runs_anew_after_a_failed_event() -> None:
    agent = executor(
        mapped("def f(v):\n  seen.append(v)\n  if v == 'bad': raise ValueError(v)\n  return len(seen)"),
        init="seen = []",
    )
    outcome(agent, "a")
    problem_of(agent.process(record("bad")))
    assert outcome(agent, "b") == [1]


def test_a_failing_init_fails_every_event() -> None:
    agent = executor(mapped("def f(v): return v"), init="raise RuntimeError('no service')")
    for _ in range(2):
        assert "no service" in problem_of(agent.process(record(1)))


def test_functions_in_init_are_not_called() -> None:
    agent = executor(
        mapped("def f(v): return 'called' in globals()"), init="def init():\n  global called\n  called = 1"
    )
    assert outcome(agent, 1) == [False]


def test_global_names_of_an_operation_start_anew_for_every_value() -> None:
    agent = executor(mapped("n = 0\ndef f(v):\n  global n\n  n += 1\n  return n"))
    assert [outcome(agent, 1), outcome(agent, 1)] == [[1], [1]]


def test_an_entry_point_is_never_taken_from_init() -> None:
    agent = executor(mapped("def f(v): return helper(v)"), init="def helper(v): return v + 1")
    assert outcome(agent, 1) == [2]


def test_an_entrypoint_names_the_function_to_call() -> None:
    agent = executor(mapped("def helper(v): return 0\ndef main(v): return helper(v) + 5", entrypoint="main"))
    assert outcome(agent, 1) == [5]


def test_context_has_the_event_and_the_application() -> None:
    agent = executor(
        mapped(
            """
            def f(v):
                event, app = context["event"], context["app"]
                message = event.message
                return [event.key, event.value, event.headers["h"].decode(), message.topic, message.partition,
                        message.offset, message.timestamp, message.key.decode(), message.value.decode(),
                        app.conf.name, app.conf.id, app.is_leader(), app.should_stop]
            """
        )
    )
    given = record({"a": 1}, key="K", offset=7, partition=3, headers=[{"key": "h", "value": b"x"}])
    assert sent(agent.process(given)) == [
        ["K", {"a": 1}, "x", "in", 3, 7, NOON / 1_000_000, '"K"', '{"a": 1}', "shop", "shop-app", True, False]
    ]


def test_init_sees_the_application_but_no_event() -> None:
    agent = executor(mapped("def f(v): return names"), init="names = sorted(context)")
    assert outcome(agent, 1) == [["app"]]


def test_a_tombstone_is_given_as_none() -> None:
    agent = executor(mapped("def f(v): return v is None"))
    assert sent(agent.process(record(0)._replace(value=None))) == [True]


def test_a_failed_event_leaves_neither_sends_nor_writes_and_the_next_goes_on() -> None:
    counts = table_state()
    agent = executor(
        mapped("def f(v, counts):\n  counts[v] = 1\n  yield v\n  if v == 'bad': 1 / 0", ["counts"]),
        sending(send_to("side", pass_through=True)),
        tables=[counts],
    )
    assert "ZeroDivisionError" in problem_of(agent.process(record("bad", key="K")))
    assert counts.written == {}
    assert counts.get('"bad"') is None
    assert outcome(agent, "good") == ["good"]
    assert list(counts.written) == ['"good"']


def test_a_dead_letter_has_the_record_and_the_line_that_failed() -> None:
    agent = executor(mapped("\ndef f(v):\n    return v['missing']"))
    (letter,) = agent.process(record({"a": 1}, key="K"))
    assert (letter.target, letter.key, letter.value, letter.timestamp) == ("in", b'"K"', b'{"a": 1}', NOON)
    assert letter.problem is not None
    assert letter.problem["reason"] == "event failed"
    detail = letter.problem["detail"] or ""
    assert '"<manifest>", line 3, in f' in detail
    assert "KeyError: 'missing'" in detail


@pytest.mark.parametrize(
    "source",
    [
        "def f(v): raise SystemExit(3)",
        "def f(v):\n  import sys\n  sys.exit()",
        "async def f(v): raise SystemExit",
        "async def f(v):\n  import asyncio\n  raise asyncio.CancelledError",
        "def f(v): raise MemoryError",
        "def f(v): raise KeyboardInterrupt",
        "async def f(v): raise KeyboardInterrupt",
        "def f(v):\n  yield v\n  raise KeyboardInterrupt",
        "async def f(v):\n  yield v\n  raise KeyboardInterrupt",
        "raise KeyboardInterrupt\ndef f(v): return v",
        "def f(v): raise GeneratorExit",
        "def f(v):\n  yield v\n  raise GeneratorExit",
        "class Own(BaseException): pass\ndef f(v): raise Own",
        "class Own(BaseException): pass\nasync def f(v): raise Own",
        "def f(v): return f(v)",
        "def f(v): yield 1 / 0",
        "1 / 0\ndef f(v): return v",
        "def f(v, w): return v",
        "def f(v): return object()",
        "def f(v): return '\\ud800'",
    ],
)
def test_any_failure_of_the_code_is_a_dead_letter(source: str) -> None:
    problem_of(executor(mapped(source)).process(record(1)))


def test_an_error_message_with_a_lone_surrogate_can_be_written() -> None:
    effects = executor(mapped("def f(v): raise ValueError(v)")).process(record("\ud800"))
    assert to_arrow(effects).num_rows == 1


def test_a_record_that_cannot_be_decoded_is_a_dead_letter() -> None:
    assert "not JSON" in problem_of(executor().process(record(b"{oops")))


def test_a_defaultselector_must_return_a_class() -> None:
    counts = table_state(default="def d(): return 0")
    agent = executor(mapped("def f(v, counts): return counts[v]", ["counts"]), tables=[counts])
    assert "must return a class, such as int or dict, not 0" in problem_of(agent.process(record("a")))


def test_operations_see_the_writes_of_earlier_operations_and_events() -> None:
    counts = table_state(default="def d(): return int")
    agent = executor(
        mapped("def f(v, counts):\n  counts[v] += 1\n  return v", ["counts"]),
        mapped("def f(v, counts): return counts[v]", ["counts"]),
        tables=[counts],
    )
    assert [outcome(agent, "a"), outcome(agent, "a"), outcome(agent, "b")] == [[1], [2], [1]]
    assert counts.written == {'"a"': Written("2", NOON), '"b"': Written("1", NOON)}


def test_a_dead_letter_of_a_channel_record_has_the_pair_of_values() -> None:
    json_, raw = TableText(Serializers("json", "json")), TableText(Serializers("raw", "raw"))
    for right, shown in ((json_, {"price": 1.50}), (raw, "eyJwcmljZSI6MS41MH0=")):
        run = executor(mapped("def f(v): raise ValueError"))
        run.decoder = ChannelDecoder(JoinedText(json_, json_, right))
        sides = {"left": '{"n":1}', "right": '{"price":1.50}' if right is json_ else shown}
        (letter,) = run.process(record(sides))
        assert letter.kind == "dead-letter"
        assert letter.value is not None
        assert json.loads(letter.value) == {"left": {"n": 1}, "right": shown}
    (letter,) = run.process(record({"left": None, "right": None}))
    assert letter.value == b'{"left":null,"right":null}'
    run.decoder = ChannelDecoder(JoinedText(json_, json_, json_))
    (letter,) = run.process(record({"left": "no JSON", "right": None}))  # SQL may have written it
    assert letter.value == b'{"left":"no JSON","right":null}'
    (letter,) = run.process(record(None)._replace(value=None, key=b"1"))
    assert letter.value is None


ORDER = "class Order:\n  def __init__(self, number): self.number = number\n"


def test_agents_with_equal_classes_in_init_pickle_them_in_turn() -> None:
    makes, out = mapped("def f(v): return Order(v)"), send_to(value="pickle")
    one, other = (executor(makes, init=ORDER, outputs=[out], identity=name) for name in ("one", "other"))
    assert [agent.process(record(7))[0].kind for agent in (one, other, one, other)] == ["send"] * 4


def test_a_pickled_instance_of_a_class_of_init_is_an_event_of_a_new_process() -> None:
    makes = executor(mapped("def f(v): return Order(v)"), init=ORDER, outputs=[send_to(value="pickle")])
    (made,) = makes.process(record(7))
    reads = executor(mapped("def f(v): return v.number"), init=ORDER)
    in_worker = pickle.dumps(replace(reads, decoder=TopicDecoder(Serializers("json", "pickle"))))
    del sys.modules[module_name(ORDER)]
    assert sent(pickle.loads(in_worker).process(record(None)._replace(value=made.value))) == [7]  # noqa: S301
