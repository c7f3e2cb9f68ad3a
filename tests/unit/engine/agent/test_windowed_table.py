"""Tables with windows as functions see them, without Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from kaspr_delta.engine.agent.table_state import Cell, TableState
from kaspr_delta.engine.streams.clock import Clock, instant
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.event import InputRecord
from kaspr_delta.plan.definition.window import WindowPlan
from tests.unit.engine.agent.agents import code, executor, in_order, mapped, problem_of, record, sent, table_plan

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MINUTE = WindowPlan(60_000, 60_000, None, 0, "update", "stream", None)
INT = "def d(): return int"


def window(**fields: Any) -> WindowPlan:
    given = {"size": 60_000, "step": 60_000, "expires": None, "grace": 0, "emit": "update"}
    return WindowPlan(**{**given, "relative_to": "stream", "selector": None, **fields})


@dataclass
class FakeWindowReader:
    rows: dict[Cell, str] = field(default_factory=dict)
    fetched: list[set[Cell]] = field(default_factory=list)

    def fetch(self, places: Collection[Cell]) -> dict[Cell, str]:
        self.fetched.append(set(places))
        return {place: self.rows[place] for place in places if place in self.rows}

    def scan(self, start: int | None) -> dict[Cell, str]:
        return {cell: value for cell, value in self.rows.items() if cell.start == start}


def at(seconds: float, value: Any, partition: int = 0) -> InputRecord:
    return record(value, timestamp=int(seconds * 1_000_000), partition=partition)


def run(  # noqa: PLR0917
    source: str,
    records: list[InputRecord],
    plan: WindowPlan = MINUTE,
    rows: dict[Cell, str] | None = None,
    before: dict[str, int] | None = None,
    default: str | None = INT,
    now: float = 0,
) -> tuple[list[Effect], FakeWindowReader, Clock]:
    reader = FakeWindowReader(dict(rows or {}))
    clock = Clock(plan, "agent", before or {}, now=lambda: now)
    state: TableState[Any] = TableState(table_plan(default=default, window=plan), reader)
    agent = executor(mapped(source, ["counts"]), tables=[state])
    agent.clocks = {"counts": clock}
    return in_order(agent, records), reader, clock


COUNT = "def f(v, counts):\n  counts[v] += 1\n  return counts[v].value()"


def written(effects: list[Effect]) -> dict[tuple[str, int], str | None]:
    return {
        (str(e.key, "utf-8"), e.window_start // 1_000_000): e.value.decode() if e.value else None
        for e in effects
        if e.kind == "write" and e.key is not None and e.window_start is not None
    }


def test_events_are_counted_in_the_window_of_their_time() -> None:
    effects, _, clock = run(COUNT, [at(10, "a"), at(59.999, "a"), at(60, "a"), at(61, "b")])
    assert sent(effects) == [1, 2, 1, 1]
    assert written(effects) == {('"a"', 0): "2", ('"a"', 60): "1", ('"b"', 60): "1"}
    assert clock.times == {"agent:in/0": 61_000}


def test_a_hopping_window_counts_an_event_in_every_window_it_belongs_to() -> None:
    effects, _, _ = run(COUNT, [at(130, "a"), at(190, "a")], window(size=120_000))
    assert written(effects) == {('"a"', 60): "1", ('"a"', 120): "2", ('"a"', 180): "1"}
    assert sent(effects) == [1, 1]  # the value in the newest window


def test_counts_continue_from_stored_values_fetched_in_one_read() -> None:
    records = [at(n, f"k{n % 3}") for n in range(120)]
    effects, reader, _ = run(COUNT, records, rows={Cell('"k0"', 60_000): "5"})
    assert written(effects)['"k0"', 60] == "25"
    assert len(reader.fetched) == 1


def test_an_event_counts_until_the_grace_of_its_window_has_passed() -> None:
    records = [at(30, "a"), at(80, "a"), at(50, "a"), at(95, "a"), at(40, "a")]
    effects, _, _ = run(COUNT, records, window(grace=30_000))
    assert written(effects) == {('"a"', 0): "2", ('"a"', 60): "2"}
    strict, _, _ = run(COUNT, records, MINUTE)
    assert written(strict) == {('"a"', 0): "1", ('"a"', 60): "2"}


def test_each_partition_has_its_own_stream_time() -> None:
    effects, _, clock = run(COUNT, [at(600, "a", 1), at(30, "a", 0)])
    assert written(effects) == {('"a"', 600): "1", ('"a"', 0): "1"}
    assert clock.times == {"agent:in/1": 600_000, "agent:in/0": 30_000}


def test_the_stream_time_of_earlier_batches_makes_events_late() -> None:
    effects, _, _ = run(COUNT, [at(30, "a")], before={"agent:in/0": 60_000})
    assert written(effects) == {}


def test_a_failed_event_does_not_move_the_stream_time() -> None:
    source = "def f(v, counts):\n  counts[v] += 1\n  return 1 / (v != 'bad')"
    effects, _, clock = run(source, [at(600, "bad"), at(30, "a")])
    assert written(effects) == {('"a"', 0): "1"}
    assert clock.times == {"agent:in/0": 30_000}


def test_windows_are_found_by_event_time_current_time_and_delta() -> None:
    source = """
        def f(v, counts):
            windows = counts["a"]
            return [windows.value(), windows.current(), windows.now(), windows.delta(60), windows.delta("2m")]
    """
    rows = {Cell('"a"', start): text for start, text in ((0, "1"), (60_000, "2"), (120_000, "3"), (600_000, "9"))}
    effects, _, _ = run(source, [at(130, "x")], rows=rows, now=601)
    assert sent(effects) == [[3, 3, 9, 2, 1]]


def test_the_wall_clock_may_place_events_in_windows() -> None:
    effects, _, clock = run(COUNT, [at(5, "a"), at(6, "a")], window(relative_to="now"), now=120)
    assert written(effects) == {('"a"', 120): "2"}
    assert clock.times == {"now": 120_000}


def test_an_event_is_not_late_if_the_wall_clock_was_set_back() -> None:
    before = {"now": 300_000}
    effects, _, clock = run(COUNT, [at(5, "a")], window(relative_to="now"), before=before, now=120)
    assert written(effects) == {('"a"', 300): "1"}
    assert clock.times == before


@pytest.mark.parametrize("value", [125, 125.5, "1970-01-01T00:02:05Z", "1970-01-01T02:02:05+02:00"])
def test_a_function_of_the_value_may_place_events_in_windows(value: Any) -> None:
    plan = window(relative_to="custom", selector=code("def t(value): return value['at']"))
    source = "def f(v, counts):\n  counts['a'] += 1\n  return counts['a'].value()"
    effects, _, _ = run(source, [at(5, {"at": value})], plan)
    assert written(effects) == {('"a"', 120): "1"}


@pytest.mark.parametrize("value", [None, True, [1], 1e20, "noon"])
def test_a_selector_that_returns_no_time_fails_the_event(value: Any) -> None:
    plan = window(relative_to="custom", selector=code("def t(value): return value['at']"))
    effects, _, _ = run("def f(v, counts): return 1", [at(5, {"at": value})], plan)
    assert "Error" in problem_of(effects)


def test_a_datetime_is_a_time() -> None:
    assert instant(EPOCH + timedelta(milliseconds=1_234)) == 1_234


def test_values_are_set_deleted_and_looked_up_like_those_of_a_dictionary() -> None:
    source = """
        def f(v, counts):
            counts["set"] = {"n": 1}
            counts.setdefault("kept", 7)
            counts.setdefault("kept", 8)
            del counts["gone"]
            popped = counts.pop("popped")
            return [counts.get("set"), counts.get("none", "d"), "kept" in counts, "gone" in counts, popped,
                    counts.pop("popped", None), sorted(counts), len(counts), sorted(counts.copy().items()),
                    [value for value in counts.values() if value == 7]]
    """
    rows = {Cell('"gone"', 0): "1", Cell('"popped"', 0): "2", Cell('"elsewhere"', 60_000): "3"}
    effects, _, _ = run(source, [at(1, 0)], rows=rows, default=None)
    assert sent(effects) == [
        [{"n": 1}, "d", True, False, 2, None, ["kept", "set"], 2, [["kept", 7], ["set", {"n": 1}]], [7]]
    ]
    assert written(effects)['"gone"', 0] is None


def test_without_a_default_class_a_missing_key_is_a_key_error() -> None:
    for source in ("counts['a'] += 1", "counts['a'].value()", "counts.pop('a')"):
        effects, _, _ = run(f"def f(v, counts): {source}", [at(1, 0)], default=None)
        assert "KeyError" in problem_of(effects)


def test_a_window_cannot_be_cleared() -> None:
    effects, _, _ = run("def f(v, counts): counts.clear()", [at(1, 0)])
    assert "delete keys one by one" in problem_of(effects)


@pytest.mark.parametrize(
    ("change", "result"),
    [("-= 1", 9), ("*= 3", 30), ("/= 4", 2.5), ("//= 3", 3), ("%= 3", 1), ("**= 2", 100), ("|= 5", 15), ("&= 2", 2)],
)
def test_every_assignment_with_an_operator_changes_the_value(change: str, result: Any) -> None:
    source = f"def f(v, counts):\n  counts['a'] {change}\n  return counts['a'].value()"
    effects, _, _ = run(source, [at(1, 0)], rows={Cell('"a"', 0): "10"})
    assert sent(effects) == [result]


def test_apply_changes_the_value_in_every_window_of_the_event() -> None:
    source = "def f(v, counts):\n  counts['a'].apply(max, v)\n  return counts['a'].value()"
    effects, _, _ = run(source, [at(1, 5), at(2, 3)], window(size=120_000), rows={Cell('"a"', -60_000): "9"})
    assert sent(effects) == [5, 5]
    assert written(effects) == {('"a"', -60): "9", ('"a"', 0): "5"}


def ranges(effects: list[Effect], kind: str) -> list[tuple[str | None, float | None, float]]:
    def seconds(moment: int | None) -> float | None:
        return None if moment is None else moment / 1_000_000

    return [(e.stream, seconds(e.window_start), seconds(e.timestamp) or 0) for e in effects if e.kind == kind]


def test_each_range_of_closed_windows_is_emitted_once() -> None:
    plan = window(emit="close", grace=10_000)
    effects, _, clock = run(COUNT, [at(65, "a"), at(69, "a")], plan)
    assert ranges(effects, "close") == [("agent:in/0", None, 0)]  # the stream time before is unknown
    again, _, later = run(COUNT, [at(69.9, "a")], plan, before=clock.times)
    assert ranges(again, "close") == []
    last, _, _ = run(COUNT, [at(200, "a")], plan, before=later.times)
    assert ranges(last, "close") == [("agent:in/0", 0, 180)]


def test_rows_expire_after_the_time_set_by_expires() -> None:
    effects, _, _ = run(COUNT, [at(400, "a")], window(expires=120_000), before={"agent:in/0": 0})
    assert ranges(effects, "expire") == [("agent:in/0", -120, 240)]
    kept, _, _ = run(COUNT, [at(400, "a")], window(), before={"agent:in/0": 0})
    assert ranges(kept, "expire") == []


def test_a_write_has_the_stream_of_its_event() -> None:
    effects, _, _ = run(COUNT, [at(1, "a", 7)])
    assert [e.stream for e in effects if e.kind == "write"] == ["agent:in/7"]
