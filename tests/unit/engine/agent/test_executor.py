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
from kaspr_delta.plan.definition.resources import OperationPlan, Serializers
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

SAME, DOUBLE = mapped("def f(v): return v"), mapped("def f(v): return v * 2")
IS_NONE = mapped("def f(v): return v is None")
EACH = mapped("def f(v): yield from range(3)")
EACH_LATER = mapped("async def f(v):\n  for n in range(3): yield n")
VALUES: list[Any] = [[1, 2], [], "ab", {"a": 1}, True, 0, "", None]
TRUTHY, FALSY = ("True", "1", "'x'", "[0]"), ("False", "0", "None", "''", "[]")
SEEN = mapped("def f(v):\n  seen.append(v)\n  if v == 'bad': raise ValueError(v)\n  return len(seen)")


def outcome(agent: Executor, value: Any) -> list[Any]:
    return sent(agent.process(record(value)))


NOT_2 = filtered("def f(v): return v != 2")
MAIN = mapped("def helper(v): return 0\ndef main(v): return helper(v) + 5", entrypoint="main")
PIPELINES: dict[str, tuple[list[OperationPlan], Any, list[Any]]] = {
    "without operations the value goes on unchanged": ([], {"a": [1]}, [{"a": [1]}]),
    "operations follow one another": ([mapped("def f(v): return v + 1"), DOUBLE], 1, [4]),
    "an operation may stand in the pipeline twice": ([DOUBLE, DOUBLE], 1, [4]),
    "None goes on to the next operation": ([mapped("def f(v): return None"), IS_NONE], 1, [True]),
    "an async filter is awaited": ([filtered("async def f(v): return v > 1")], 1, []),
    "a filter drops its branch only": ([EACH, NOT_2], 0, [0, 1]),
    "an empty generator ends the branch": ([mapped("def f(v):\n  return\n  yield")], 1, []),
    "an entrypoint names the function to call": ([MAIN], 1, [5]),
    **{f"{one!r} is one value": ([mapped(f"def f(v): return {one!r}")], 1, [one]) for one in VALUES},
    **{f"a filter passes {yes}": ([filtered(f"def f(v): return {yes}")], [1], [[1]]) for yes in TRUTHY},
    **{f"a filter drops {no}": ([filtered(f"def f(v): return {no}")], 1, []) for no in FALSY},
    "a generator fans out first": ([EACH, SAME], 9, [0, 1, 2]),
    "a generator fans out last": ([SAME, EACH], 9, [0, 1, 2]),
    "an async generator fans out first": ([EACH_LATER, SAME], 9, [0, 1, 2]),
    "an async generator fans out last": ([SAME, EACH_LATER], 9, [0, 1, 2]),
}


@pytest.mark.parametrize(("pipeline", "value", "results"), PIPELINES.values(), ids=PIPELINES)
def test_a_pipeline_hands_on_results_that_filters_pass_and_generators_multiply(
    pipeline: list[OperationPlan], value: Any, results: list[Any]
) -> None:
    assert outcome(executor(*pipeline), value) == results


def test_without_output_values_are_discarded() -> None:
    assert executor(SAME, outputs=[]).process(record(1)) == []


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
        (topic, f'"{first}{second}"'.encode()) for first in "ab" for topic in ("side", "out") for second in "12"
    ]


CALLS = "def init():\n  global called\n  called = 1"
INITS = {
    "it is no entry point": ("def helper(v): return v + 1", "def f(v): return helper(v)", 2),
    "its functions are not called": (CALLS, "def f(v): return 'called' in globals()", False),
    "it sees no event": ("names = sorted(context)", "def f(v): return names", ["app"]),
}


@pytest.mark.parametrize(("init", "source", "result"), INITS.values(), ids=INITS)
def test_init_makes_names_for_operations(init: str, source: str, result: Any) -> None:
    assert outcome(executor(mapped(source), init=init), 1) == [result]


def test_an_event_that_never_ends_is_a_dead_letter_and_the_next_goes_on() -> None:
    counts = table_state()
    source = "def f(v, counts):\n  counts['x'] = 1\n  while v: pass\n  return v"
    agent = replace(executor(mapped(source, ["counts"]), tables=[counts]), timeout=0.1)
    assert "longer than its application's config.eventTimeout allows" in problem_of(agent.process(record(1)))
    assert counts.written == {}
    assert outcome(agent, 0) == [0]


def test_init_runs_once_for_all_executors_of_one_agent_and_anew_after_a_failed_event() -> None:
    first, second = (executor(SEEN, init="seen = []", identity="test/the same") for _ in range(2))
    other = executor(SEEN, init="seen = []")
    assert [outcome(agent, "a") for agent in (first, second, first, other)] == [[1], [2], [3], [1]]
    problem_of(first.process(record("bad")))
    assert [outcome(agent, "b") for agent in (first, other)] == [[1], [2]]


def test_a_failing_init_fails_every_event() -> None:
    agent = executor(SAME, init="raise RuntimeError('no service')")
    for _ in range(2):
        assert "no service" in problem_of(agent.process(record(1)))


def test_global_names_of_an_operation_start_anew_for_every_value() -> None:
    agent = executor(mapped("n = 0\ndef f(v):\n  global n\n  n += 1\n  return n"))
    assert [outcome(agent, 1), outcome(agent, 1)] == [[1], [1]]


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


def test_a_tombstone_is_given_as_none() -> None:
    assert sent(executor(IS_NONE).process(record(0)._replace(value=None))) == [True]


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


TEXT, BYTES = TableText(Serializers("json", "json")), TableText(Serializers("raw", "raw"))
CHANNEL: list[tuple[TableText, dict[str, Any], dict[str, Any]]] = [
    (TEXT, {"left": '{"n":1}', "right": '{"price":1.50}'}, {"left": {"n": 1}, "right": {"price": 1.5}}),
    (BYTES, {"left": '{"n":1}', "right": "cA=="}, {"left": {"n": 1}, "right": "cA=="}),
    (BYTES, {"left": None, "right": None}, {"left": None, "right": None}),
    (TEXT, {"left": "no JSON", "right": None}, {"left": "no JSON", "right": None}),  # SQL may have written it
]


@pytest.mark.parametrize(("right", "pair", "shown"), CHANNEL)
def test_a_dead_letter_of_a_channel_record_has_the_pair_of_values(right: TableText, pair: Any, shown: Any) -> None:
    agent = executor(mapped("def f(v): raise ValueError"))
    agent.decoder = ChannelDecoder(JoinedText(TEXT, TEXT, right))
    letters = [*agent.process(record(pair)), *agent.process(record(None)._replace(value=None, key=b"1"))]
    assert [letter.kind for letter in letters] == ["dead-letter"] * 2
    assert [letter.value and json.loads(letter.value) for letter in letters] == [shown, None]


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
