"""Agents that ``take`` several records as one event, and the state that one batch leaves for the next."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from kaspr_delta.engine.agent.state import AgentState, ready
from kaspr_delta.plan.definition.resources import TakePlan
from kaspr_delta.storage.limits import Limits
from tests.unit.engine.agent.agents import executor, in_order, mapped, record, sent, table_state

TWO = TakePlan(2, 5_000)


@pytest.mark.parametrize(
    ("take", "rest", "processed"),
    [(None, False, 3), (TWO, False, 2), (TWO, True, 3), (TakePlan(3, 1), False, 3), (TakePlan(9, 1), False, 0)],
)
def test_records_of_an_incomplete_group_wait_for_the_rest(take: TakePlan | None, rest: bool, processed: int) -> None:
    assert ready(3, take, rest=rest) == processed


def test_the_limit_keys_ahead_does_not_cut_groups_and_a_returned_list_is_one_record() -> None:
    agent = executor(mapped("def f(values): return values"), take=TWO)
    effects = in_order(agent, [record(n, offset=n) for n in range(7)], Limits(keys_ahead=3))
    assert sent(effects) == [[0, 1], [2, 3], [4, 5], [6]]


def test_the_context_has_the_events_in_the_order_of_the_list() -> None:
    agent = executor(mapped("def f(values): return [values, [event.key for event in context['event']]]"), take=TWO)
    effects = agent.process_together([record("a", key="A"), record("b", key="B")])
    assert sent(effects) == [[["a", "b"], ["A", "B"]]]


def test_an_undecodable_record_of_a_group_is_a_dead_letter_by_itself() -> None:
    effects = executor(mapped("def f(values): return values"), take=TWO).process_together([record(b"{oops"), record(2)])
    assert [effect.kind for effect in effects] == ["dead-letter", "send"]
    assert sent(effects) == [[2]]


def test_a_failed_group_gives_a_dead_letter_per_record_and_no_write() -> None:
    counts = table_state()
    source = "def f(values, counts):\n  counts['x'] = 1\n  return 1 / 0"
    agent = executor(mapped(source, ["counts"]), tables=[counts], take=TWO)
    effects = agent.process_together([record(1, key="A"), record(2, key="B")])
    assert [(effect.kind, effect.key) for effect in effects] == [("dead-letter", b'"A"'), ("dead-letter", b'"B"')]
    assert counts.written == {}


def test_a_state_is_read_back_unchanged_and_unknown_fields_are_ignored() -> None:
    state = AgentState({"t": 3}, {"t": 5}, 12.5, {"counts": {"a:t/0": 7}})
    assert AgentState.of(state.plain) == state
    assert AgentState.of({**state.plain, "of a later version": 1}) == state
    assert AgentState.of({}) == AgentState()


def test_the_wait_begins_anew_only_if_records_were_processed(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(1_000.0)
    monkeypatch.setattr("kaspr_delta.engine.agent.state.time", SimpleNamespace(time=lambda: next(seconds)))
    first = AgentState({"t": 0}, {"t": 0}).reached({"t": 5}).processed({})
    assert (first.waiting, first.done, first.since) == (True, {"t": 0}, 1_000)
    assert first.processed({}).since == 1_000  # the oldest record still waits
    later = first.reached({"in": 6}).processed({"t": 4})
    assert (later.done, later.since) == ({"t": 4}, 1_001)
    done = later.at({"t": 9})
    assert not done.waiting
    assert done.done == done.read == {"t": 9, "in": 6}
