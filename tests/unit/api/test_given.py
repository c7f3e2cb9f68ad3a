"""Arguments of ``put``, ``delete`` and ``produce``: accepted forms, and messages for the others."""

from __future__ import annotations

from typing import Any

import pytest

from kaspr_delta.api.records import keys_given, records_given, rows_given
from kaspr_delta.errors import UsageError


@pytest.mark.parametrize(
    "rows",
    [
        {"a": 1, "b": None},
        [("a", 1), ["b", None]],
        [{"key": "a", "value": 1}, {"value": None, "key": "b"}],
        iter([{"key": "a", "value": 1}, ("b", None)]),
    ],
)
def test_rows_are_a_mapping_pairs_or_records(rows: Any) -> None:
    assert list(rows_given(rows)) == [("a", 1), ("b", None)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", 1), {"key": "b"}], "row 2 of put, {'key': 'b'}, is neither a pair"),
        ([{"key": "b", "value": 1, "timestamp": 2}], "row 1 of put.*without further fields"),
        ([{"a": 1, "b": 2}], "row 1 of put"),
        (["ab"], "row 1 of put, 'ab', is neither a pair"),
        ([("a", 1, 2)], "row 1 of put"),
        ([5], "row 1 of put, 5,"),
        ("ab", r"put takes rows, not 'ab': write put\({key: value}\)"),
        (b"ab", "put takes rows"),
        (5, "put takes rows, not 5"),
        ({"key": "a", "value": 1}, r"write put\(\[{'key': 'a', 'value': 1}\]\) for the record"),
        ({"key": "a", "value": 1, "timestamp": 2}, "may be one record"),
    ],
)
def test_malformed_rows_are_refused_with_the_reason(rows: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(rows_given(rows))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("abc", ["abc"]),
        (b"abc", [b"abc"]),
        (("a", "b"), [("a", "b")]),
        ({"a": 1}, [{"a": 1}]),
        (1, [1]),
        (["abc", ("a", 1)], ["abc", ("a", 1)]),
        ({"abc"}, ["abc"]),
        ({"a": 1, "b": 2}.keys(), ["a", "b"]),
        ((text for text in "ab"), ["a", "b"]),
    ],
)
def test_text_tuples_and_objects_are_keys_and_other_iterables_hold_keys(keys: Any, expected: list[Any]) -> None:
    assert keys_given(keys) == expected


@pytest.mark.parametrize("keys", [{"key": "a"}, {"key": "a", "value": None}, [{"key": "a", "value": 1}]])
def test_a_record_is_no_key_to_delete(keys: Any) -> None:
    with pytest.raises(UsageError, match=r"write delete\('a'\)"):
        keys_given(keys)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({"key": "a", "value": 1}, r"write produce\(\[{'key': 'a', 'value': 1}\]\)"),
        ("abc", "produce takes a list of records, not 'abc'"),
        (5, "produce takes a list of records, not 5"),
        ([{"key": "a", "value": 1}, ("a", 1)], r"record 2 of produce, \('a', 1\), is no record"),
    ],
)
def test_a_single_record_and_malformed_records_are_refused(records: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(records_given(records))


def test_valid_records_are_passed_on_unchanged() -> None:
    records = [{"key": "a", "value": 1}, {"value": 2, "partition": 1}]
    assert list(records_given(records)) == records
