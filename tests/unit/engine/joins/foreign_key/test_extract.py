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
from kaspr_delta.storage.arrow_types import arrow_schema

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
SCHEMA = arrow_schema("key STRING, left STRING, left_hash STRING, unchanged BOOLEAN")


def extract(name: str, timeout: float = 300.0) -> ExtractForeignKeys:
    selector = Selector(Snippet(EXTRACTORS[name], name), JSON, "extractor", "foreign key", timeout)
    return ExtractForeignKeys(selector, JSON)


def batch_of(*rows: tuple[str | None, bool]) -> pa.RecordBatch:
    """Left rows, and whether they are unchanged. The hash of a row is its text."""
    named = [(f'"k{number}"', left, left, unchanged) for number, (left, unchanged) in enumerate(rows)]
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in named], SCHEMA)


def batches() -> st.SearchStrategy[pa.RecordBatch]:
    return st.lists(st.tuples(LEFT, st.booleans()), max_size=6).map(lambda rows: batch_of(*rows))


@given(batch=batches(), name=st.sampled_from(sorted(EXTRACTORS)))
def test_extraction_of_a_batch_equals_extraction_row_by_row(batch: pa.RecordBatch, name: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ExtractForeignKeys, "together", lambda *_: None)
        (expected,) = extract(name)([batch])
    (found,) = extract(name)([batch])
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()


USUAL = [(f'{{"p":"P{number}"}}', False) for number in range(3)]


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


@pytest.mark.parametrize(
    ("rows", "fks", "reasons", "single"),
    [
        # Usual rows are extracted together, and all rows one by one if any of them fails.
        (USUAL, ['"P0"', '"P1"', '"P2"'], [None] * 3, 0),
        ([*USUAL[:2], ("{}", False)], ['"P0"', '"P1"', None], [None, None, "extractor failed"], 3),
        # Unchanged rows are not extracted.
        ([("no json", True)] * 2, [None] * 2, [None] * 2, 0),
        # A row that cannot be read counts as deleted.
        ([USUAL[0], ("no json", False)], ['"P0"', None], [None, "value cannot be read"], 2),
    ],
)
def test_rows_are_extracted_together_unless_one_fails(
    calls: list[str], rows: list[Any], fks: list[Any], reasons: list[Any], single: int
) -> None:
    (found,) = extract("of_value")([batch_of(("{}", False), *rows).slice(1)])  # a slice keeps its texts
    unreadable = [reason == "value cannot be read" for reason in reasons]
    lefts = [None if gone else left for (left, _), gone in zip(rows, unreadable, strict=True)]
    assert (found["fk"].to_pylist(), found["left"].to_pylist(), found["left_hash"].to_pylist()) == (fks, lefts, lefts)
    assert [one and one["reason"] for one in found["problem"].to_pylist()] == reasons
    assert len(calls) == single


@given(batch=batches(), name=st.sampled_from(sorted(EXTRACTORS)))
def test_rows_without_the_column_unchanged_are_all_extracted(batch: pa.RecordBatch, name: str) -> None:
    given_columns = ["key", "left", "left_hash"]
    rows = [row | {"unchanged": False} for row in batch.select(given_columns).to_pylist()]
    (expected,) = extract(name)([pa.RecordBatch.from_pylist(rows, SCHEMA)])
    (found,) = extract(name)([batch.select(given_columns)])
    assert found.schema.names == [*given_columns, "fk", "problem"]
    assert found.to_pylist() == expected.select(found.schema.names).to_pylist()
