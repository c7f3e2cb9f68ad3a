from __future__ import annotations

import pytest

from kaspr_delta.engine.agent.ordered import likely_keys
from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.engine.streams.event import InputRecord, TopicDecoder
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.storage.limits import Limits
from tests.unit.engine.agent.agents import (
    JSON,
    NOON,
    FakeReader,
    arrow,
    executor,
    in_order,
    mapped,
    record,
    sent,
    table_plan,
    table_state,
)

COUNT = "def f(v, counts):\n  counts[v['c']] += 1\n  return counts[v['c']]"


def run(
    source: str,
    records: list[InputRecord],
    rows: dict[str, str] | None = None,
    default: str | None = None,
    limits: Limits | None = None,
) -> tuple[list[Effect], FakeReader]:
    reader = FakeReader(dict(rows or {}))
    agent = executor(mapped(source, ["counts"]), tables=[TableState(table_plan(default=default), reader)])
    return in_order(agent, records, limits), reader


def test_a_batch_gives_sends_in_order_then_the_last_write_of_each_key() -> None:
    records = [record({"c": c}, offset=n) for n, c in enumerate("aab")]
    effects, _ = run(COUNT, records, {'"a"': "10"}, "def d(): return int")
    assert sent(effects) == [11, 12, 1]
    assert effects[3:] == [
        Effect("write", "counts", b'"a"', b"12", None, NOON),
        Effect("write", "counts", b'"b"', b"1", None, NOON),
    ]


def test_a_deletion_is_a_write_without_a_value_and_a_failed_event_writes_nothing() -> None:
    source = "def f(v, counts):\n  del counts[v['c']]\n  return 1 / v['n']"
    effects, _ = run(source, [record({"c": "a", "n": 0}), record({"c": "b", "n": 1})], {'"a"': "1", '"b"': "2"})
    assert [effect.kind for effect in effects[:2]] == ["dead-letter", "send"]
    assert effects[2:] == [Effect("write", "counts", b'"b"', None, None, NOON)]


def test_the_keys_of_a_batch_are_fetched_in_one_read() -> None:
    records = [record({"c": f"c{n}", "deep": [{"x": n}]}, key=f"k{n}") for n in range(200)]
    _, reader = run(COUNT, records, default="def d(): return int")
    (keys,) = reader.fetched
    assert {'"c0"', '"c199"', '"k0"', '"k199"', "0", "199"} <= keys


def test_keys_are_fetched_at_the_first_look_up_together_with_computed_ones() -> None:
    _, reader = run("def f(v, counts): return counts.get('x:' + v['c'])", [record({"c": "a"})], {'"x:a"': "1"})
    assert reader.fetched == [{'"a"', '"x:a"'}]
    _, reader = run("def f(v, counts): return v", [record({"c": "a"})])
    assert reader.fetched == []


def test_records_that_cannot_be_decoded_and_deep_values_do_not_stop_the_look_ahead() -> None:
    effects, _ = run(COUNT, [record(b"{oops"), record({"c": "a"})], default="def d(): return int")
    assert [effect.kind for effect in effects] == ["dead-letter", "send", "write"]
    effects, _ = run("def f(v, counts): return len(counts.get('x', ''))", [record(b"[" * 900 + b"1" + b"]" * 900)])
    assert sent(effects) == [0]


def test_values_that_cannot_be_keys_are_not_likely_keys() -> None:
    records = arrow([record([1, "\ud800", None, True, 1.5])])
    assert likely_keys(records, TopicDecoder(JSON), table_state()) == {"1", "true", "1.5"}
    assert likely_keys(records, TopicDecoder(JSON), table_state(serializers=Serializers("raw", "raw"))) == set()


def test_likely_keys_are_fetched_once_per_stretch_of_events() -> None:
    records = [record({"c": "a"}), record({"c": "b"}), record({"c": "d"})]
    source = "def f(v, counts): return [counts.get(v['c']), counts.get('x')]"
    _, reader = run(source, records, limits=Limits(keys_ahead=2))
    assert reader.fetched == [{'"a"', '"b"'}, {'"x"'}, {'"d"'}]


RISKY = "def f(v, counts):\n  counts[v['c']] += 1\n  counts['all'] += 1\n  return 1 / v['n']"


@pytest.mark.parametrize("source", [COUNT, RISKY, "def f(v, counts): return (v for _ in '12') if v['n'] else v"])
def test_effects_are_the_same_by_column_and_event_by_event(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [{"c": c, "n": n % 3} for n, c in enumerate("abacbbca")]
    records = [record(value, offset=n, timestamp=NOON + n) for n, value in enumerate(values)]
    by_column, _ = run(source, records, {'"a"': "10"}, "def d(): return int")
    monkeypatch.setattr("kaspr_delta.engine.agent.by_column.is_by_column", lambda _: False)
    one_by_one, _ = run(source, records, {'"a"': "10"}, "def d(): return int")
    assert len(one_by_one) > len(records)
    assert [effect._replace(problem=None) for effect in by_column] == [
        effect._replace(problem=None) for effect in one_by_one
    ]
