"""Sends to a table's changelog, read-only tables, runs of tasks, and counts of table operations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.step import table_write
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import OperationPlan, Serializers
from kaspr_delta.plan.definition.window import WindowPlan
from tests.unit.engine.agent.agents import (
    NOON,
    executor,
    mapped,
    problem_of,
    record,
    send_to,
    sending,
    table_plan,
    table_state,
)

CHANGELOG = "shop-app-counts-changelog"


def with_changelog(agent: Executor) -> Executor:
    return replace(agent, topics=Topics({}, 1, changelogs={CHANGELOG: table_plan()}))


def test_a_send_to_a_changelog_writes_the_row_and_a_tombstone_deletes_it() -> None:
    plan = send_to(CHANGELOG, key_selector="def k(v): return v['k']", value_selector="def v(v): return v['v']")
    agent = with_changelog(executor(outputs=[plan]))
    assert agent.process(record({"k": {"b": 1, "a": 2}, "v": {"n": 1}})) == [
        Effect("write", "counts", b'{"a":2,"b":1}', b'{"n":1}', None, NOON)
    ]
    assert agent.process(record({"k": "x", "v": None})) == [Effect("write", "counts", b'"x"', None, None, NOON)]


def test_an_agent_sees_its_send_to_a_changelog_in_the_table() -> None:
    counts = table_state()
    plan = send_to(CHANGELOG, key_selector="def k(v): return v", value_selector="def v(v): return 5", pass_through=True)
    operations = sending(plan), mapped("def f(v, counts):\n  counts[v] += 1\n  return counts[v]", ["counts"])
    agent = with_changelog(executor(*operations, tables=[counts]))
    (effect,) = agent.process(record("x"))
    assert (effect.kind, effect.value) == ("send", b"6")
    assert {place: written.value for place, written in counts.written.items()} == {'"x"': "6"}


@pytest.mark.parametrize("key", ["None", "b'no json'"])
def test_a_send_with_an_invalid_key_to_a_changelog_is_a_dead_letter(key: str) -> None:
    agent = with_changelog(executor(outputs=[send_to(CHANGELOG, key_selector=f"def k(v): return {key}")]))
    assert "Error" in problem_of(agent.process(record(1)))


def test_a_send_to_a_changelog_is_read_with_the_tables_serializers_and_refused_if_it_has_windows() -> None:
    raw = table_plan(serializers=Serializers("raw", "raw"))
    assert table_write(Effect("send", CHANGELOG, b"\x00k", b"\xff"), raw) == ("AGs=", "/w==")
    plan = table_plan(window=WindowPlan(1, 1, None, 0, "update", "stream", None))
    with pytest.raises(SerializationError, match="has windows"):
        table_write(Effect("send", CHANGELOG, b'"k"', b"1"), plan)


@pytest.mark.parametrize(
    "write", ["t['a'] = 1", "del t['a']", "t.pop('a')", "t.setdefault('new', 1)", "t.update({'a': 2})", "t['a'] += 1"]
)
def test_a_read_only_table_can_be_read_but_not_written(write: str) -> None:
    def outcome(last: str) -> list[Effect]:
        source = f"def f(v, counts):\n  t = counts\n  {last}"
        agent = executor(mapped(source, ["counts"]), tables=[table_state({'"a"': "1"})])
        return replace(agent, read_only=True).process(record(0))

    assert "only agents write tables" in problem_of(outcome(write))
    assert [effect.value for effect in outcome("return t['a']")] == [b"1"]


@pytest.mark.parametrize(
    "pipeline",
    [
        [mapped("def f(_): return [_]"), sending(send_to("out"))],
        [mapped("def f(): return [None]"), sending(send_to("out"))],
        [sending(send_to("out", value_selector="def v(v): return [v]"))],
    ],
)
def test_the_first_operation_of_a_task_gets_none_or_no_argument(pipeline: list[OperationPlan]) -> None:
    (effect,) = executor(*pipeline, outputs=[]).fire("task/t", NOON)
    assert (effect.target, effect.value, effect.timestamp) == ("out", b"[null]", NOON)


def test_a_failed_run_of_a_task_is_a_dead_letter_of_the_task() -> None:
    (letter,) = executor(mapped("def f(): return 1 / 0"), outputs=[]).fire("task/t", NOON)
    assert (letter.kind, letter.target, letter.key) == ("dead-letter", "task/t", None)


def test_table_operations_are_counted() -> None:
    source = "def f(v, counts):\n  counts['a'] += 1\n  counts.get('zzz')\n  'a' in counts\n  del counts['b']"
    agent = executor(mapped(source, ["counts"]), tables=[table_state({'"a"': "1", '"b"': "2"})], outputs=[])
    agent.process(record(0))
    assert agent.counts == {
        f'["table_operations", "counts", "keys_{operation}"]': times
        for operation, times in {"retrieved": 2, "updated": 1, "deleted": 1}.items()
    }
