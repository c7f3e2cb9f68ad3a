"""Tables with windows as functions see them, without Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from kaspr_delta.engine.agent.table_state import Cell, TableState
from kaspr_delta.engine.streams.clock import Clock, instant
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.event import InputRecord
from kaspr_delta.plan.definition.window import WindowPlan
from tests.unit.engine.agent.agents import (
    FakeReader,
    code,
    executor,
    in_order,
    mapped,
    problem_of,
    record,
    sent,
    table_plan,
)

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MINUTE = WindowPlan(60_000, 60_000, None, 0, "update", "stream", None)
INT = "def d(): return int"


def window(**fields: Any) -> WindowPlan:
    given = {"size": 60_000, "step": 60_000, "expires": None, "grace": 0, "emit": "update"}
    return WindowPlan(**{**given, "relative_to": "stream", "selector": None, **fields})


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
) -> tuple[list[Effect], FakeReader, Clock]:
    reader = FakeReader(dict(rows or {}))
    clock = Clock(plan, "agent", before or {}, now=lambda: now)
    state = TableState(table_plan(default=default, window=plan), reader, clock)
    agent = executor(mapped(source, ["counts"]), tables=[state])
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


def test_the_stream_time_of_earlier_batches_makes_events_late_and_failed_events_do_not_move_it() -> None:
    effects, _, _ = run(COUNT, [at(30, "a")], before={"agent:in/0": 60_000})
    assert written(effects) == {}
    effects, _, clock = run(f"{COUNT} / (v != 'bad')", [at(600, "bad"), at(30, "a")])
    assert (written(effects), clock.times) == ({('"a"', 0): "1"}, {"agent:in/0": 30_000})


def test_windows_are_found_by_event_time_current_time_and_delta() -> None:
    source = """
        def f(v, counts):
            windows = counts["a"]
            return [windows.value(), windows.current(), windows.now(), windows.delta(60), windows.delta("2m")]
    """
    rows = {Cell('"a"', start): text for start, text in ((0, "1"), (60_000, "2"), (120_000, "3"), (600_000, "9"))}
    effects, _, _ = run(source, [at(130, "x")], rows=rows, now=601)
    assert sent(effects) == [[3, 3, 9, 2, 1]]


def test_the_wall_clock_may_place_events_in_windows_and_setting_it_back_makes_no_event_late() -> None:
    effects, _, clock = run(COUNT, [at(5, "a"), at(6, "a")], window(relative_to="now"), now=120)
    assert (written(effects), clock.times) == ({('"a"', 120): "2"}, {"now": 120_000})
    before = {"now": 300_000}
    effects, _, clock = run(COUNT, [at(5, "a")], window(relative_to="now"), before=before, now=120)
    assert (written(effects), clock.times) == ({('"a"', 300): "1"}, before)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        *((value, {('"a"', 120): "1"}) for value in (125, 125.5, "1970-01-01T00:02:05Z", "1970-01-01T02:02:05+02:00")),
        *((value, {}) for value in (None, True, [1], 1e20, "noon")),
    ],
)
def test_a_function_of_the_value_places_events_in_windows_or_fails_them(value: Any, found: Any) -> None:
    plan = window(relative_to="custom", selector=code("def t(value): return value['at']"))
    effects, _, _ = run("def f(v, counts): counts['a'] += 1", [at(5, {"at": value})], plan)
    assert written(effects) == found
    assert found or "Error" in problem_of(effects)


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


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        *((source, "KeyError") for source in ("counts['a'] += 1", "counts['a'].value()", "counts.pop('a')")),
        ("counts.clear()", "delete keys one by one"),
    ],
)
def test_without_a_default_class_a_missing_key_fails_and_clearing_always_does(source: str, detail: str) -> None:
    effects, _, _ = run(f"def f(v, counts): {source}", [at(1, 0)], default=None)
    assert detail in problem_of(effects)


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


def ranges(effects: list[Effect], kind: str) -> list[tuple[str | None, int | None, int | None]]:
    return [(effect.stream, effect.window_start, effect.timestamp) for effect in effects if effect.kind == kind]


def test_each_range_of_closed_windows_is_emitted_once() -> None:
    plan = window(emit="close", grace=10_000)
    effects, _, clock = run(COUNT, [at(65, "a"), at(69, "a")], plan)
    assert ranges(effects, "close") == [("agent:in/0", None, 0)]  # the stream time before is unknown
    again, _, later = run(COUNT, [at(69.9, "a")], plan, before=clock.times)
    assert ranges(again, "close") == []
    last, _, _ = run(COUNT, [at(200, "a")], plan, before=later.times)
    assert ranges(last, "close") == [("agent:in/0", 0, 180_000_000)]


@pytest.mark.parametrize(("expires", "passed"), [(120_000, [("agent:in/7", -120_000_000, 240_000_000)]), (None, [])])
def test_rows_of_the_stream_of_their_event_expire_after_the_time_set_by_expires(
    expires: int | None, passed: Any
) -> None:
    effects, _, _ = run(COUNT, [at(400, "a", 7)], window(expires=expires), before={"agent:in/7": 0})
    assert ranges(effects, "expire") == passed
    assert [effect.stream for effect in effects if effect.kind == "write"] == ["agent:in/7"]
