"""The keys that rows of a table refer to, or by which they are grouped, without Spark."""

from __future__ import annotations

from math import inf
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.streams.selector import SelectKeys, Selector
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.table_text import TableText
from tests.unit.engine.agent.agents import JSON, code

RAW = Serializers("raw", "json")
Rows = tuple["str | None", "str | None"]


def selected(
    function: str | None, *rows: Rows, copies: int | None = None, table: Serializers = JSON, keys: Serializers = JSON
) -> list[tuple[str | None, Any]]:
    """The key of each row, and the reason of its problem."""
    own = TableText(keys)
    selector = None if function is None else Selector(code(function), own, "groupBy", "group", inf, looks_up=False)
    columns = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(("key", "value"))}
    counted = {} if copies is None else {"duplicate_count": [copies] * len(rows)}
    batch = pa.RecordBatch.from_pydict(columns | counted)
    (found,) = SelectKeys("grp", TableText(table), selector, own)([batch])
    assert found.schema.names == [*batch.schema.names, "grp", "problem"]
    assert all(
        problem["value"] == row[1] for row, problem in zip(rows, found["problem"].to_pylist(), strict=True) if problem
    )
    return [(row["grp"], row["problem"] and row["problem"]["reason"]) for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("function", "row", "serializers", "key"),
    [
        ("def f(value): return value['owner']", ('"r"', '{"owner":"ann"}'), {}, '"ann"'),
        ("def f(value): return b'ann'", ('"r"', "1"), {"keys": RAW}, "YW5u"),
        ("def f(value): return 'x'", ('"r"', "1"), {"keys": RAW}, "eA=="),  # a group may be text
        ("def f(value, key): return [key, value]", ("1", "2"), {}, "[1,2]"),
        ("def f(value, key): return key.decode()", ("a2V5", "1"), {"table": RAW}, '"key"'),
        (None, ('"r"', "1"), {}, '"r"'),
        (None, ("a2V5", "1"), {"table": RAW}, '"key"'),
        ("def f(value): return value", ("1", "0"), {}, "0"),
        ("def f(value): return value", ("1", '""'), {}, '""'),
        ("def f(value): return value", ("1", "false"), {}, "false"),
        ("def f(value): return None", ("1", "0"), {}, None),
        ("def f(value): return 1 / 0", ('"r"', None), {}, None),  # a deleted row
        ("def f(value): return 1 / 0", (None, None), {}, None),
    ],
)
def test_a_row_has_the_key_that_the_function_returns(
    function: str | None, row: Rows, serializers: dict[str, Any], key: str | None
) -> None:
    assert selected(function, row, **serializers) == [(key, None)]


@pytest.mark.parametrize(
    ("function", "row", "reason"),
    [
        ("return value['c']", ("1", "{}"), "groupBy failed"),
        ("return 1", (None, "1"), "null key"),
        ("return 1", ("P100", "1"), "key is not canonical JSON text"),
        ("return 1", ('"r"', "no JSON"), "value cannot be read"),
        ("return object()", ('"r"', "1"), "group cannot be used"),
    ],
)
def test_a_row_without_a_usable_key_has_a_problem_and_others_have_none(function: str, row: Rows, reason: str) -> None:
    sound = ("2", '{"c":1}')
    found = selected(f"def f(value): {function}", row, sound)
    assert found[0] == (None, reason)
    assert reason == "group cannot be used" or found[1] == ("1", None)


def test_a_row_with_a_duplicate_key_has_a_key_and_a_problem() -> None:
    function = "def f(value): return value"
    assert selected(function, ("1", "7"), copies=2) == [("7", "duplicate key")]
    assert selected(function, ("1", "7"), copies=1) == [("7", None)]


def test_checked_keys_are_not_checked_again() -> None:
    select = SelectKeys("grp", TableText(JSON), None, TableText(JSON), checked=True)
    (found,) = select([pa.RecordBatch.from_pydict({"key": [" 1"], "value": ["1"]})])
    assert found["grp"].to_pylist() == ["1"]
