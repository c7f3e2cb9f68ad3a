from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.table_text import TableText, column_type, hashable

JSON = TableText(Serializers("json", "json"))
RAW = TableText(Serializers("raw", "raw"))

KEYS: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)


class Empty(Enum):
    NOTHING = None


@given(KEYS)
def test_a_key_read_from_a_table_finds_its_row_again(key: Any) -> None:
    text = JSON.key(key)
    assert JSON.key(JSON.key_object(text)) == text
    assert JSON.key(JSON.event_key(text)) == text
    assert {JSON.key_object(text): 1}[JSON.key_object(text)] == 1


@given(st.binary())
def test_raw_keys_and_values_are_bytes(data: bytes) -> None:
    assert RAW.key_object(RAW.key(data)) == data
    text = RAW.value(data)
    assert text is not None
    assert RAW.value_object(text) == data
    assert RAW.is_key(RAW.key(data))
    assert RAW.key("Zoë") == RAW.key("Zoë".encode())


@pytest.mark.parametrize("key", [1, ["a"], None, "\ud800"])
def test_raw_tables_take_bytes_and_text_only(key: Any) -> None:
    with pytest.raises(SerializationError):
        RAW.key(key)


def test_bytes_are_encoded_once_more_in_a_json_table() -> None:
    assert JSON.key(b'"O1"') == '"\\"O1\\""'
    assert JSON.key(b"O1") == JSON.key("O1")
    with pytest.raises(SerializationError, match="not UTF-8"):
        JSON.key(b"\xff")


@pytest.mark.parametrize("nothing", [None, Empty.NOTHING])
def test_null_is_no_key_and_no_row(nothing: Any) -> None:
    with pytest.raises(SerializationError, match="is no key"):
        JSON.key(nothing)
    assert JSON.value(nothing) is None
    assert RAW.value(None) is None


@pytest.mark.parametrize(
    ("text", "fits"),
    [('"P100"', True), ("P100", False), ("1", True), ('{"b":1,"a":1}', False), ("null", False), ('"null"', True)],
)
def test_only_canonical_text_is_a_key(text: str, fits: bool) -> None:
    assert JSON.is_key(text) is fits
    assert JSON.key("null") == '"null"'


def test_lists_are_read_as_tuples_and_objects_stay_objects() -> None:
    assert JSON.key_object('["eu",["a",1]]') == ("eu", ("a", 1))
    assert JSON.key_object('{"a":[1]}') == {"a": (1,)}
    assert JSON.event_key('["eu",{"a":[1]}]') == ["eu", {"a": [1]}]
    assert {hashable({"a": 1, "b": [2]}): "x"}[hashable({"b": [2], "a": 1})] == "x"


def test_values_are_fresh_objects_at_every_call() -> None:
    first, second = (JSON.value_object('{"a":[]}') for _ in range(2))
    assert first is not second
    assert first["a"] is not second["a"]


def test_raw_is_stored_as_binary_and_json_as_string() -> None:
    assert (column_type("raw"), column_type("json")) == ("BINARY", "STRING")
