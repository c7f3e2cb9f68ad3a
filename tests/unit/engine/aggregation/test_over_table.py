"""The groups of a table's rows, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.aggregation.over_table import GroupRows
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.table_text import TableText
from tests.unit.engine.agent.agents import JSON, code

RAW = Serializers("raw", "json")


def grouped(
    function: str | None,
    *rows: tuple[str, str | None],
    copies: int | None = 1,
    table: Serializers = JSON,
    groups: Serializers = JSON,
) -> list[tuple[str | None, dict[str, Any] | None]]:
    grouping = (
        Selector(code(function), TableText(groups), "groupBy", "group", looks_up=False)
        if function is not None
        else None
    )
    group_rows = GroupRows(grouping, TableText(table), TableText(groups))
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.string()),
            "duplicate_count": [copies] * len(rows),
        }
    )
    (found,) = group_rows([batch])
    assert found.schema.names == ["key", "value", "duplicate_count", "grp", "problem"]
    return [(row["grp"], row["problem"]) for row in found.to_pylist()]


def test_a_groupby_function_returns_a_key_of_the_made_table() -> None:
    assert grouped("def f(value): return value['c']", ('"r"', '{"c":"x"}')) == [('"x"', None)]
    assert grouped("def f(value, key): return [key, value]", ("1", "2")) == [("[1,2]", None)]
    assert grouped("def f(value): return 'x'", ('"r"', "1"), groups=RAW) == [("eA==", None)]


def test_without_a_function_every_row_is_a_group_of_its_own() -> None:
    assert grouped(None, ('"r"', "1")) == [('"r"', None)]
    assert grouped(None, ("a2V5", "1"), table=RAW) == [('"key"', None)]


def test_falsy_results_are_groups_but_none_is_not() -> None:
    assert [group for group, _ in grouped("def f(value): return value", ("1", "0"), ("2", '""'), ("3", "false"))] == [
        "0",
        '""',
        "false",
    ]
    assert grouped("def f(value): return None", ("1", "0")) == [(None, None)]


def test_a_deleted_row_belongs_to_no_group() -> None:
    assert grouped("def f(value): return 1 / 0", ('"r"', None)) == [(None, None)]


def test_a_failing_function_leaves_only_its_row_without_a_group() -> None:
    failed, sound = grouped("def f(value): return value['c']", ("1", "{}"), ("2", '{"c":1}'))
    assert sound == ("1", None)
    assert failed[0] is None
    assert failed[1] is not None
    assert (failed[1]["reason"], failed[1]["value"]) == ("groupBy failed", "{}")


@pytest.mark.parametrize(
    ("function", "value", "reason"),
    [("return 1", "no JSON", "value cannot be read"), ("return object()", "1", "group cannot be used")],
)
def test_a_value_that_is_no_json_and_a_group_that_is_no_key_are_problems(
    function: str, value: str, reason: str
) -> None:
    ((group, problem),) = grouped(f"def f(value): {function}", ("1", value))
    assert group is None
    assert problem is not None
    assert problem["reason"] == reason


def test_a_row_with_a_duplicate_key_has_a_group_and_a_problem() -> None:
    ((group, problem),) = grouped("def f(value): return value", ("1", "7"), copies=2)
    assert group == "7"
    assert problem is not None
    assert problem["reason"] == "duplicate key"
