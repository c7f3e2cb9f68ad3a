"""The fold of groups without Spark: from rows of changes to rows of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.aggregation.fold_groups import AggregatedRow, Change, FoldGroups
from kaspr_delta.plan.definition.joins import AggregationPlan, StreamPlan
from kaspr_delta.plan.definition.resources import Serializers, TopicInput
from kaspr_delta.serde.instants import EPOCH
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.spec.aggregation import Operation
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import AGGREGATED, AGGREGATION, PROBLEM
from tests.unit.engine.agent.agents import HERE, JSON, code

COLUMNS = arrow_schema(
    "grp STRING, window_start TIMESTAMP, op STRING, value STRING, timestamp TIMESTAMP, stream STRING, source STRING,"
    " id STRING, last BOOLEAN"
)
SUM: dict[str, Any] = {
    "initializer": "def zero(): return 0",
    "adder": "def add(total, value): return total + value['n']",
    "subtractor": "def take(total, value): return total - value['n']",
}
NAMES: dict[str, Any] = {
    "initializer": "def none(): return []",
    "adder": "def add(names, value):\n    names.append(value)\n    names[value['at']]\n    return names",
    "subtractor": "def take(names, value):\n    names.remove(value)\n    return names",
}


def at(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def change(op: str, value: str | None = "{}", **of: Any) -> Change:
    """A change to group ``"g"``; times in milliseconds."""
    of |= {name: at(of[name]) for name in ("timestamp", "window_start") if name in of}
    plain = Change('"g"', None, op, value, at(0), None, "topic/in", None, last=False)
    return plain._replace(**of)


def add(value: str | None = "{}", **of: Any) -> Change:
    return change("add", value, **of)


def row(op: str, value: str | None, key: str = '"r"', *, last: bool = True, **of: Any) -> Change:
    """A change to group ``"g"`` by a row of a table."""
    return change(op, value, id=key, last=last, **of)


STREAM = StreamPlan(TopicInput(("in",), None, JSON, "earliest"), 1, repartitioned=False)


def groups(kind: Operation, timeout: float = 60, serializers: Serializers = JSON, **functions: str) -> FoldGroups:
    """The fold of an aggregation over a stream."""
    given: dict[str, Any] = {name: code(functions[name]) if name in functions else None for name in SUM}
    given |= dict.fromkeys(("log", "contributions", "group_times"), "")
    plan = AggregationPlan("made", kind, STREAM, None, **given, location=HERE)
    return FoldGroups(plan, TableText(serializers), TableText(serializers), timeout)


def groups_of_rows(kind: Operation, **functions: Any) -> FoldGroups:
    """The fold of an aggregation over a table."""
    folding = groups(kind, **functions)
    return replace(folding, plan=replace(folding.plan, origin="rows"))


def batch(changes: Sequence[Change]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([one._asdict() for one in changes], COLUMNS)


def fold(folding: FoldGroups, *changes: Change, size: int | None = None) -> list[AggregatedRow]:
    cut = size or len(changes)
    batches = [batch(changes[start : start + cut]) for start in range(0, len(changes), cut)] if changes else []
    return [AggregatedRow(**folded) for made in folding(batches) for folded in made.to_pylist()]


def of(kind: str, folded: Iterable[AggregatedRow]) -> list[AggregatedRow]:
    return [one for one in folded if one.kind == kind]


def written(folding: FoldGroups, *changes: Change, size: int | None = None) -> dict[str | None, str | None]:
    return {one.key: one.value for one in of("write", fold(folding, *changes, size=size))}


def reason(folded: Iterable[AggregatedRow]) -> str | None:
    (failed,) = of("failed", folded)
    assert failed.problem is not None
    return failed.problem["reason"]


def names(columns: str) -> list[str]:
    return [column.split()[0] for column in columns.replace(PROBLEM, "STRUCT").split(", ")]


def test_the_columns_of_the_fold_are_declared_and_columns_of_the_log() -> None:
    (made,) = groups("count")([batch([add()])])
    assert made.schema.names == names(AGGREGATED) == list(AggregatedRow._fields)
    assert set(names(AGGREGATED)) <= set(names(AGGREGATION.columns))


MOST = {"adder": "def most(one, other): return max(one, other)"}
FICKLE = {"adder": "def f(one, other): return None if one == other else other"}


@pytest.mark.parametrize(
    ("kind", "functions", "changes", "total"),
    [
        ("count", {}, [add(), add(None), add("1")], "3"),
        ("count", {}, [change("before", "41"), add()], "42"),
        ("count", {}, [change("before", "1"), row("subtract", "{}")], "0"),
        ("toTable", {}, [change("before", "1"), add("3"), add("2")], "2"),
        ("toTable", {}, [change("before", "1"), add("3"), add(None)], None),
        ("reduce", MOST, [add("3"), add("5"), add("4")], "5"),
        ("reduce", MOST, [change("before", "9"), add("4")], "9"),
        # A group whose adder returned None begins anew.
        ("reduce", FICKLE, [add("1"), add("1")], None),
        ("reduce", FICKLE, [add("1"), add("1"), add("7")], "7"),
        ("aggregate", SUM, [add('{"n":3}'), add('{"n":4}')], "7"),
        # Over rows their old values are subtracted.
        ("aggregate", SUM, [change("before", "7"), row("subtract", '{"n":3}', last=False), row("add", '{"n":5}')], "9"),
    ],
)
def test_a_group_has_the_total_of_its_kind(
    kind: Operation, functions: dict[str, Any], changes: list[Change], total: str | None
) -> None:
    assert written(groups(kind, **functions), *changes) == {'"g"': total}


def test_bytes_are_folded_as_bytes() -> None:
    joined = groups("reduce", serializers=Serializers("json", "raw"), adder="def f(one, other): return one + other")
    assert written(joined, change("before", "YQ=="), add("Yg==")) == {'"g"': "YWI="}


class TestGroups:
    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    def test_a_group_may_span_several_batches(self, size: int) -> None:
        changes = [change("before", "1", grp="a"), add(grp="a"), add(grp="a"), add(grp="b"), add(grp="c"), add(grp="c")]
        assert written(groups("count"), *changes, size=size) == {"a": "3", "b": "1", "c": "2"}

    def test_a_group_without_changes_is_not_written(self) -> None:
        assert fold(groups("count")) == fold(groups("count"), change("before", "1")) == []

    def test_each_window_is_a_group_of_its_own(self) -> None:
        earlier, later = add(window_start=0), add(window_start=60_000)
        changes = change("before", "5", window_start=0), earlier, later, later
        made = of("write", fold(groups("count"), *changes))
        assert [(one.key, one.window_start, one.value) for one in made] == [
            ('"g"', at(0), "6"),
            ('"g"', at(60_000), "2"),
        ]

    def test_a_row_has_the_stream_that_wrote_it_last(self) -> None:
        (made,) = fold(groups("count"), add(stream="in/0"), add(stream="in/1"))
        assert made.stream == "in/1"


@pytest.mark.parametrize(
    ("folding", "changes", "time"),
    [
        (groups("count"), [change("before", "1", timestamp=5), add(timestamp=9), add(timestamp=7)], 9),
        (groups("count"), [change("before", "1", timestamp=10), add(timestamp=9)], 10),
        (groups("toTable"), [change("before", "1", timestamp=10), add("2", timestamp=3)], 3),  # that of the last record
        (groups("count"), [add(timestamp=-5, window_start=-60_000)], -5),  # before 1970
        (groups("aggregate", **SUM), [add('{"n":3}', timestamp=5), add("{}", timestamp=9)], 5),  # the second one fails
    ],
)
def test_a_group_has_the_greatest_time_of_its_values(folding: FoldGroups, changes: list[Change], time: int) -> None:
    made = fold(folding, *changes)
    assert [one.timestamp for one in of("write", made)] == [at(time)]
    assert {one.timestamp for one in of("failed", made)} <= {at(9)}
    assert {one.window_start for one in of("write", made)} == {changes[0].window_start}


class TestFailures:
    def test_a_failed_value_is_left_out_and_later_values_are_added(self) -> None:
        made = fold(groups("aggregate", **SUM), add('{"n":3}'), add("{}"), add('{"n":4}'))
        assert [one.value for one in of("write", made)] == ["7"]
        assert reason(made) == "aggregation failed"

    def test_changes_of_a_failed_function_to_the_total_are_undone(self) -> None:
        changes = add('{"at":0}'), add('{"at":9}'), add('{"at":1}')
        made = fold(groups("aggregate", **NAMES), *changes)
        assert [one.value for one in of("write", made)] == ['[{"at":0},{"at":1}]']
        (failed,) = of("failed", made)
        assert (failed.key, failed.source) == ('"g"', "topic/in")
        assert failed.problem is not None
        assert failed.problem["value"] == '{"at":9}'
        assert "IndexError" in (failed.problem["detail"] or "")

    def test_a_held_total_that_is_not_json_is_a_failure_and_not_overwritten(self) -> None:
        changes = change("before", "no JSON", grp="a"), add('{"n":3}', grp="a"), add('{"n":3}', grp="b")
        made = fold(groups("aggregate", **SUM), *changes)
        assert reason(made) == "value cannot be used"
        assert {one.key: one.value for one in of("write", made)} == {"b": "3"}

    @pytest.mark.parametrize(
        ("kind", "functions", "why"),
        [
            ("aggregate", SUM, "aggregation failed"),
            ("aggregate", SUM | {"initializer": "def zero(): return 1 / 0"}, "aggregation failed"),
            ("reduce", {"adder": "def f(one, other): return object()"}, "value cannot be used"),
            ("reduce", {"adder": "def f(one, other):\n    while True:\n        pass"}, "aggregation failed"),
            *(
                ("reduce", {"adder": f"def f(one, other): raise {error}"}, "aggregation failed")
                for error in ("SystemExit", "KeyboardInterrupt", "GeneratorExit")
            ),
        ],
    )
    def test_a_group_with_only_failed_values_is_not_written(
        self, kind: Operation, functions: dict[str, Any], why: str
    ) -> None:
        held = [] if "1 / 0" in functions.get("initializer", "") else [change("before", "7")]
        made = fold(groups(kind, timeout=0.1, **functions), *held, add("{}"))
        assert reason(made) == why
        assert of("write", made) == []


class TestTotals:
    """A function gets the total as it is stored in the table, wherever batches end."""

    BY_NUMBER = groups(
        "aggregate",
        initializer="def none(): return {}",
        adder="def add(seen, value):\n    seen[value] = seen.get(value, 0) + 1\n    return seen",
    )

    def test_a_total_is_the_same_over_one_batch_and_over_several(self) -> None:
        assert written(self.BY_NUMBER, add("1")) == {'"g"': '{"1":1}'}
        together = written(self.BY_NUMBER, add("1"), add("1"))
        assert written(self.BY_NUMBER, change("before", '{"1":1}'), add("1")) == together

    def test_a_total_is_independent_of_objects_that_the_function_keeps(self) -> None:
        keeping = (
            "def f(one, other, kept=[]):\n    [of.update(n=0) for of in kept]\n    kept.append(other)\n    return other"
        )
        folding = groups("reduce", adder=keeping)
        assert written(folding, add('{"n":1}'), add('{"n":2}'), add('{"n":3}')) == {'"g"': '{"n":3}'}


@pytest.mark.parametrize(
    ("changes", "contributions"),
    [
        ([add('{"n":1}')], []),  # a record of a stream
        ([row("add", '{"n":1}')], [('{"n":1}', True)]),
        ([change("before", "1"), row("subtract", '{"n":1}', last=False), row("add", '{"n":2}')], [('{"n":2}', True)]),
        ([change("before", "1"), row("subtract", '{"n":1}')], [('{"n":1}', False)]),  # a deleted row
        # A row that could not be added contributes nothing; one that could not be subtracted still contributes.
        ([change("before", "1"), row("subtract", '{"n":1}', last=False), row("add", "{}")], [("{}", False)]),
        ([change("before", "1"), row("subtract", "{}")], []),
    ],
)
def test_a_row_contributes_what_was_added_and_not_subtracted(
    changes: list[Change], contributions: list[tuple[str, bool]]
) -> None:
    made = of("contribution", fold(groups("aggregate", **SUM), *changes))
    assert [(one.value, one.live) for one in made] == contributions
    assert {(one.key, one.grp) for one in made} <= {('"r"', '"g"')}


def test_the_dead_letter_of_a_row_has_its_key() -> None:
    (failed,) = of("failed", fold(groups("aggregate", **SUM), row("add", "{}", '"r"')))
    assert failed.key == '"r"'


TO_NONE = SUM | {"subtractor": "def take(total, value): return None"}


@pytest.mark.parametrize(
    ("folding", "changes", "expected"),
    [
        # A change that cancels out writes only the time, unless it is older.
        (groups_of_rows("count"), [row("subtract", "{}", timestamp=9, last=False), row("add", "{}", timestamp=9)],
         [("time", None, at(9), True)]),
        (groups_of_rows("count"), [row("subtract", "{}", timestamp=3, last=False), row("add", "{}", timestamp=3)], []),
        # A group that is deleted has no time.
        (groups_of_rows("aggregate", **TO_NONE), [row("subtract", '{"n":2}', timestamp=9)],
         [("write", None, at(9), None), ("time", None, None, False)]),
    ],
)  # fmt: skip
def test_over_a_table_a_row_is_written_if_its_value_changes_and_a_newer_time_is_stored(
    folding: FoldGroups, changes: list[Change], expected: list[tuple[Any, ...]]
) -> None:
    made = [one for one in fold(folding, change("before", "2", timestamp=5), *changes) if one.kind != "contribution"]
    assert [(one.kind, one.value, one.timestamp, one.live) for one in made] == expected
    assert {one.key for one in made} <= {'"g"'}
