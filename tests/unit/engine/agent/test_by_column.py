"""The quick way by columns: the executor's effects, and the agents that it leaves to the executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.agent.by_column import ByColumn, is_by_column, quickest
from kaspr_delta.engine.agent.executor import Executor
from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.streams.effect import SCHEMA, EventFailedError, to_arrow
from kaspr_delta.engine.streams.event import InputRecord
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.functions.time_limit import EventTimeoutError
from kaspr_delta.plan.definition.resources import OperationPlan, TakePlan
from tests.unit.engine.agent.agents import (
    NOON,
    FakeReader,
    arrow,
    executor,
    filtered,
    mapped,
    record,
    send_to,
    sending,
    table_plan,
    table_state,
)

DOUBLE = mapped("def f(v): return v * 2")
FANS_OUT = mapped("def f(v):\n  if v == 4: return (w for w in (v, v))\n  return v")
ERRORS = ("ValueError(v)", "KeyboardInterrupt", "GeneratorExit", "type('Own', (BaseException,), {})")


def effects_by_column(agent: Executor, records: Sequence[InputRecord]) -> list[dict[str, Any]]:
    assert is_by_column(agent)
    return _plain(pa.Table.from_batches(ByColumn(agent).effects(arrow(records), 100), SCHEMA))


def one_by_one(agent: Executor, records: Sequence[InputRecord]) -> list[dict[str, Any]]:
    effects = [effect for one in records for effect in agent.process(one)]
    return _plain(pa.Table.from_batches([to_arrow(effects, 100)]))


def _plain(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows as dictionaries in their order. Tracebacks are cut to the last line, because their outer frames differ."""
    plain: list[dict[str, Any]] = rows.sort_by("seq").to_pylist()
    for row in plain:
        if row["problem"] is not None:
            row["problem"]["detail"] = row["problem"]["detail"].splitlines()[-1]
    return plain


def numbered(*values: Any) -> list[InputRecord]:
    return [record(value, key=f"k{n}", offset=n, timestamp=NOON + n) for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("pipeline", "outputs"),
    [
        ((), [send_to()]),
        ((DOUBLE,), [send_to()]),
        ((DOUBLE, filtered("def f(v): return v % 4 == 0"), DOUBLE), [send_to()]),
        ((filtered("def f(v): return []"),), [send_to()]),
        ((mapped("def f(v): return None"),), [send_to()]),
        ((mapped("def f(v): return {'n': v, 'all': [v]}"),), [send_to(), send_to("other", value="raw")]),
        ((DOUBLE,), [send_to("a", key_selector="def k(v): return str(v)"), send_to("b")]),
        ((DOUBLE,), [send_to(key_selector="async def k(v): return v")]),
        ((DOUBLE,), [send_to(key_selector="1 / 0\ndef k(v): return v")]),
        *(((mapped(f"def f(v):\n  if v == 4: raise {error}\n  return v"),), [send_to()]) for error in ERRORS),
        ((FANS_OUT,), [send_to("a"), send_to("b")]),
        ((mapped("def f(v): return g(v)\ndef g(v):\n  yield v\n  yield v"),), [send_to()]),
        ((mapped("def f(v): return g(v)\nasync def g(v): return v + 1"),), [send_to()]),
        ((DOUBLE,), []),
    ],
)
def test_effects_by_column_equal_effects_event_by_event(
    pipeline: tuple[OperationPlan, ...], outputs: list[Any]
) -> None:
    records = numbered(*range(8))
    result = effects_by_column(executor(*pipeline, outputs=outputs), records)
    assert result == one_by_one(executor(*pipeline, outputs=outputs), records)


def test_an_unreadable_record_is_a_dead_letter_and_the_others_go_on() -> None:
    records = numbered(1, 2, b"{oops", 4, 5)
    records[3] = records[3]._replace(key=b"{no key")
    records[4] = records[4]._replace(value=None, key=None, timestamp=None)
    agent = executor(mapped("def f(v): return [v]"))
    result = effects_by_column(agent, records)
    assert [row["kind"] for row in result] == ["send", "send", "dead-letter", "dead-letter", "send"]
    assert [row["seq"] for row in result] == [100, 101, 102, 103, 104]
    assert result == one_by_one(agent, records)


NOTE = "calls = []\ndef note(v):\n  calls.append(v)\n  return list(calls)"
CHECK = "calls = []\ndef note(v):\n  calls.append(1 / v)\n  return len(calls)"
COUNT = "from collections import Counter\ncalls = Counter()\ndef note(v):\n  calls[v] += 1\n  return calls[v]"
AGAIN = "def f(v):\n  if note(v) < 2 and v == 3: return (n for n in (v,))\n  return note(v)"


@pytest.mark.parametrize(
    ("init", "source", "given", "sent"),
    [
        pytest.param(NOTE, "def f(v): return note(v)", [1, 2], [b"[1]", b"[1,2]"], id="once and in order"),
        pytest.param(CHECK, "def f(v): return note(v)", [1, 1, 0, 1, 1], [b"1", b"2", b"1", b"2"], id="init runs anew"),
        pytest.param(COUNT, AGAIN, [1, 3, 4], [b"2", b"3", b"2"], id="again only for a generator"),
    ],
)
def test_functions_are_called_as_often_as_event_by_event(init: str, source: str, given: Any, sent: list[bytes]) -> None:
    effects = effects_by_column(executor(mapped(source), init=init), numbered(*given))
    assert [row["value"] for row in effects if row["kind"] == "send"] == sent


def test_a_failed_event_calls_its_functions_once(tmp_path: Path) -> None:
    note = (
        f"def f(v):\n  with open({str(tmp_path / 'calls')!r}, 'a') as file: file.write(str(v))\n  return 6 // (v - 3)"
    )
    kinds = [row["kind"] for row in effects_by_column(executor(mapped(note)), numbered(1, 3, 4))]
    assert kinds == ["send", "dead-letter", "send"]
    assert (tmp_path / "calls").read_text() == "134"


def test_the_time_limit_holds_for_each_event_not_for_the_batch() -> None:
    source = "def f(v):\n  calls.append(v)\n  time.sleep(0.03)\n  return len(calls)"
    agent = replace(executor(mapped(source), init="calls = []\nimport time"), timeout=0.2)
    values = [row["value"] for row in effects_by_column(agent, numbered(*range(12)))]
    assert values == [str(n).encode() for n in range(1, 13)]


def test_an_event_that_never_ends_holds_up_only_itself() -> None:
    count = mapped("def f(v, counts):\n  while v == 2: pass\n  counts['all'] = v\n  return v", ["counts"])
    state = table_state()
    agent = replace(executor(count, tables=[state]), timeout=0.3)
    assert [row["kind"] for row in effects_by_column(agent, numbered(1, 2, 3))] == ["send", "dead-letter", "send"]
    assert {key: written.value for key, written in state.written.items()} == {'"all"': "3"}


class TimesOutInKeep(TableState):
    """The time limit strikes while the writes of the first event are kept."""

    struck = False

    def keep(self, timestamp: int | None) -> None:
        if not self.struck:
            self.struck = True
            raise EventTimeoutError
        super().keep(timestamp)


def test_a_timeout_after_the_functions_ended_does_not_fail_the_event() -> None:
    kept, late = TableState(table_plan("kept"), FakeReader()), TimesOutInKeep(table_plan("late"), FakeReader())
    both = mapped("def f(v, kept, late):\n  kept[v] = late[v] = v\n  return v", ["kept", "late"])
    agent = executor(both, tables=[kept, late])
    assert [row["kind"] for row in effects_by_column(agent, numbered(1, 2))] == ["send", "send"]
    assert [list(state.written) for state in (kept, late)] == [["1", "2"], ["1", "2"]]


@pytest.mark.parametrize(
    "agent",
    [
        executor(mapped("def f(v): return context['event'].key")),
        executor(mapped("x = []\ndef f(v):\n  x.append(v)\n  return x")),
        executor(mapped("def f(v): return globals()['con' + 'text']")),
        executor(mapped("def f(v):\n  yield v")),
        executor(mapped("async def f(v): return v")),
        executor(sending(send_to())),
        executor(outputs=[send_to(predicate="def p(v): return v")]),
        executor(outputs=[send_to(None, name_selector="def n(v): return v")]),
        executor(DOUBLE, take=TakePlan(2, 1_000)),
        replace(executor(DOUBLE), topics=Topics({}, 1, changelogs={"out": table_plan()})),
    ],
)
def test_unsupported_agents_are_not_run_by_column(agent: Executor) -> None:
    assert quickest(agent) is agent


def test_sends_are_numbered_from_the_number_of_their_event() -> None:
    agent = executor(filtered("def f(v): return v % 2"), DOUBLE, outputs=[send_to("a"), send_to("b")])
    sends = ByColumn(agent).sends(arrow(numbered(*range(6))), pa.array([70, 60, 50, 40, 30, 20], pa.int64()))
    found = [(row["target"], row["value"], row["seq"]) for batch in sends for row in batch.to_pylist()]
    expected = [("a", b"2", 60), ("a", b"6", 40), ("a", b"10", 20), ("b", b"2", 61), ("b", b"6", 41), ("b", b"10", 21)]
    assert found == expected


@pytest.mark.parametrize("bad", [record("no number"), record(b"{"), record(1)._replace(key=b"{")])
def test_sends_raise_an_error_if_an_event_fails(bad: InputRecord) -> None:
    agent = executor(mapped("def f(v): return v + 1"))
    for records in ([bad], [record(1), bad], [bad, record(1)]):
        with pytest.raises(EventFailedError):
            list(ByColumn(agent).sends(arrow(records), pa.array(range(len(records)), pa.int64())))
