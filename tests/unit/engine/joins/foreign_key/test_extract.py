"""Foreign keys extracted for all rows of a batch together are the same as row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.engine.joins.foreign_key.extract import ExtractForeignKeys
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.table_text import TableText

JSON = TableText(Serializers("json", "json"))
EXTRACTORS = {
    "of_value": "def of_value(order): return order['p']",
    "of_key": "def of_key(order, key): return [key, order.get('p')]",
    "anything": "def anything(order): return order",
    "no_argument": "def no_argument(): return 'P1'",
    "coroutine": "async def coroutine(order): return order['p']",
    "without_import": "import no_such_package\ndef without_import(order): return order['p']",
    "with_default": "def with_default(order, other=1): return order['p'], other",
}
LEFT = st.sampled_from([None, '{"p":"P1"}', '{"p":1}', '{"p":null}', "{}", "[1]", "null", "no json", '{"p":1e999}'])
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("left", pa.string()),
        ("left_hash", pa.string()),
        ("unchanged", pa.bool_()),
    ]
)


def extract(name: str, timeout: float = 300.0) -> ExtractForeignKeys:
    selector = Selector(Snippet(EXTRACTORS[name], name), JSON, "extractor", "foreign key", timeout)
    return ExtractForeignKeys(selector, JSON)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = []
    for number in range(draw(st.integers(0, 6))):
        left = draw(LEFT)
        new = None if left is None else f"hash of {left}"
        rows.append(
            {
                "key": f'"k{number}"',
                "left": left,
                "left_hash": new,
                "unchanged": draw(st.booleans()),
            }
        )
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@given(batch=batches(), name=st.sampled_from(sorted(EXTRACTORS)))
def test_extraction_of_a_batch_equals_extraction_row_by_row(batch: pa.RecordBatch, name: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ExtractForeignKeys, "together", lambda *_: None)
        (expected,) = extract(name)([batch])
    (found,) = extract(name)([batch])
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()


def usual(count: int) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {"key": f'"k{n}"', "left": f'{{"p":"P{n}"}}', "left_hash": "h", "unchanged": False} for n in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The left keys of the rows that were extracted one by one."""
    found: list[str] = []
    one_by_one = ExtractForeignKeys.extracted

    def noted(self: ExtractForeignKeys, key: str, *others: Any) -> Any:
        found.append(key)
        return one_by_one(self, key, *others)

    monkeypatch.setattr(ExtractForeignKeys, "extracted", noted)
    return found


def test_a_slice_of_rows_keeps_its_texts() -> None:
    rows = usual(4)
    (found,) = extract("of_value")([rows.slice(2)])
    assert found.select(rows.schema.names).to_pylist() == rows.to_pylist()[2:]


def test_usual_rows_are_extracted_together(calls: list[str]) -> None:
    (found,) = extract("of_value")([usual(3)])
    assert found["fk"].to_pylist() == ['"P0"', '"P1"', '"P2"']
    assert calls == []


def test_if_a_row_fails_all_rows_are_extracted_one_by_one(calls: list[str]) -> None:
    batch = pa.RecordBatch.from_pylist([*usual(2).to_pylist(), {**usual(1).to_pylist()[0], "left": "{}"}], SCHEMA)
    (found,) = extract("of_value")([batch])
    assert found["fk"].to_pylist() == ['"P0"', '"P1"', None]
    assert [one is None or one["reason"] for one in found["problem"].to_pylist()] == [True, True, "extractor failed"]
    assert len(calls) == 3


@given(batch=batches(), name=st.sampled_from(sorted(EXTRACTORS)))
def test_rows_without_the_column_unchanged_are_all_extracted(batch: pa.RecordBatch, name: str) -> None:
    given_columns = ["key", "left", "left_hash"]
    rows = [row | {"unchanged": False} for row in batch.select(given_columns).to_pylist()]
    (expected,) = extract(name)([pa.RecordBatch.from_pylist(rows, SCHEMA)])
    (found,) = extract(name)([batch.select(given_columns)])
    assert found.schema.names == [*given_columns, "fk", "problem"]
    assert found.to_pylist() == expected.select(found.schema.names).to_pylist()


def test_unchanged_rows_are_not_extracted(calls: list[str]) -> None:
    rows = [{**row, "left": "no json", "unchanged": True} for row in usual(2).to_pylist()]
    (found,) = extract("of_value")([pa.RecordBatch.from_pylist(rows, SCHEMA)])
    assert (found["fk"].to_pylist(), found["left"].to_pylist()) == ([None, None], ["no json", "no json"])
    assert calls == []


def test_a_row_that_cannot_be_read_counts_as_deleted() -> None:
    rows = [*usual(1).to_pylist(), {**usual(2).to_pylist()[1], "left": "no json"}]
    (found,) = extract("of_value")([pa.RecordBatch.from_pylist(rows, SCHEMA)])
    assert (found["left"].to_pylist(), found["left_hash"].to_pylist()) == (['{"p":"P0"}', None], ["h", None])
    assert [one and one["reason"] for one in found["problem"].to_pylist()] == [None, "value cannot be read"]
