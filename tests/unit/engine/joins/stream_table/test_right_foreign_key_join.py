"""The keys that rows of a table refer to, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.joins.stream_table.right_foreign_key_join import ReferTo
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.table_text import TableText
from tests.unit.engine.agent.agents import JSON, code

RAW = Serializers("raw", "json")


def referred(
    extractor: str, *rows: tuple[str | None, str | None], table: Serializers = JSON, stream: Serializers = JSON
) -> list[tuple[str | None, dict[str, Any] | None]]:
    refer = ReferTo(Selector(code(extractor), TableText(stream), "rightExtractor", "foreign key"), TableText(table))
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    batch = pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})
    (found,) = refer([batch])
    assert found.schema.names == ["key", "value", "fk", "problem"]
    return [(row["fk"], row["problem"]) for row in found.to_pylist()]


def reason(extractor: str, row: tuple[str | None, str | None]) -> str:
    ((fk, problem),) = referred(extractor, row)
    assert fk is None
    assert problem is not None
    return str(problem["reason"])


def test_a_foreign_key_is_spelled_as_a_key_of_the_stream() -> None:
    assert referred("def f(value): return value['owner']", ('"r"', '{"owner":"ann"}')) == [('"ann"', None)]
    assert referred("def f(value): return b'ann'", ('"r"', "1"), stream=RAW) == [("YW5u", None)]


def test_a_function_may_take_the_key_of_the_row() -> None:
    assert referred("def f(value, key): return key", ('"r"', "1")) == [('"r"', None)]
    assert referred("def f(value, key): return key.decode()", ("a2V5", "1"), table=RAW) == [('"key"', None)]


@pytest.mark.parametrize("value", ["0", '""', "false"])
def test_falsy_results_are_keys(value: str) -> None:
    assert referred("def f(value): return value", ('"r"', value)) == [(value, None)]


def test_a_row_may_refer_to_nothing() -> None:
    assert referred("def f(value): return None", ('"r"', "1")) == [(None, None)]


def test_a_deleted_row_has_no_foreign_key_and_is_not_extracted() -> None:
    assert referred("def f(value): return 1 / 0", ('"r"', None), (None, None)) == [(None, None), (None, None)]


def test_a_failing_function_leaves_out_only_its_row() -> None:
    failed, sound = referred("def f(value): return value['owner']", ("1", "{}"), ("2", '{"owner":1}'))
    assert sound == ("1", None)
    assert failed[0] is None
    assert failed[1] is not None
    assert (failed[1]["reason"], failed[1]["value"]) == ("rightExtractor failed", "{}")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        pytest.param((None, "1"), "null key", id="no key"),
        pytest.param(("P100", "1"), "key is not canonical JSON text", id="a key of SQL's"),
        pytest.param(('"r"', "no JSON"), "value cannot be read", id="a value of SQL's"),
    ],
)
def test_invalid_rows_written_by_sql_are_problems(row: tuple[str | None, str | None], why: str) -> None:
    assert reason("def f(value): return 1", row) == why


def test_a_result_that_is_no_key_is_a_problem() -> None:
    assert reason("def f(value): return object()", ('"r"', "1")) == "foreign key cannot be used"
