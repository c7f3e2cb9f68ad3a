from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import SerializerName
from kaspr_delta.serde.serializers import decode, encode_key, encode_value

NAMES: tuple[SerializerName, ...] = ("json", "raw", "binary", "pickle")


class NotPicklable:
    def __reduce__(self) -> Any:
        raise OSError("a socket, say")


@pytest.mark.parametrize("name", NAMES)
def test_none_is_no_bytes_in_both_directions(name: SerializerName) -> None:
    assert encode_key(name, None) is None
    assert encode_value(name, None) is None
    assert decode(name, None) is None
    assert decode("json", b"null") is None


@pytest.mark.parametrize("name", ["raw", "binary"])
@given(data=st.binary())
def test_raw_and_binary_return_bytes_unchanged(name: SerializerName, data: bytes) -> None:
    assert decode(name, encode_value(name, data)) == data
    assert decode(name, encode_key(name, data)) == data


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_is_utf_8_to_raw_and_binary(text: str) -> None:
    assert encode_value("raw", text) == text.encode()
    assert decode("binary", encode_value("binary", text)) == text.encode()


@given(st.dictionaries(st.tuples(st.integers(), st.text()), st.sets(st.integers())))
def test_objects_come_back_from_pickle(value: Any) -> None:
    assert decode("pickle", encode_value("pickle", value)) == value


def test_json_keys_are_canonical_values_are_as_written_and_bytes_pass_unencoded() -> None:
    assert encode_key("json", {"b": 1, "a": 2}) == b'{"a":2,"b":1}'
    assert encode_value("json", {"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert encode_value("json", b"{ }") == b"{ }"
    assert encode_key("json", b"plain") == b"plain"
    assert (encode_key("json", 1), encode_key("json", "1")) == (b"1", b'"1"')


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("raw", value) for value in (1, {"a": 1}, "\ud800")),
        *(("binary", value) for value in (1.5, "\ud800")),
        *(("json", value) for value in (float("nan"), "\ud800", object())),
        *(("pickle", value) for value in (lambda: 1, NotPicklable())),
    ],
)
def test_values_that_cannot_be_encoded_are_refused(name: SerializerName, value: Any) -> None:
    with pytest.raises(SerializationError):
        encode_value(name, value)
    with pytest.raises(SerializationError):
        encode_key(name, value)


@pytest.mark.parametrize(
    ("name", "data"),
    [("json", b"abc"), ("json", b""), ("binary", b"?"), ("pickle", b"?"), ("pickle", b"AAAA"), ("pickle", b"")],
)
def test_bytes_that_cannot_be_decoded_are_refused(name: SerializerName, data: bytes) -> None:
    with pytest.raises(SerializationError):
        decode(name, data)
