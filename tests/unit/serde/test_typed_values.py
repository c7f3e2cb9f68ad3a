from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.typed_text import TypedText
from kaspr_delta.serde.typed_values import from_columns, key_text, plain_json, read, written
from kaspr_delta.spec.ddl import Type, columns_of

NEW_YORK = timezone(timedelta(hours=-5))


def kind(text: str) -> Type:
    return columns_of(f"c {text}")[0].type


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "STRING": st.text(st.characters(exclude_categories=["Cs"])),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(38, 9)": st.decimals(-(10**29) + 1, 10**29 - 1, places=9),
    "DOUBLE": st.floats(allow_nan=False),
    "BOOLEAN": st.booleans(),
    "BINARY": st.binary(),
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes(timezones=st.just(timezone.utc)),
    "TIMESTAMP_NTZ": st.datetimes(),
    "ARRAY<DATE>": st.lists(st.none() | st.dates()),
    "MAP<STRING, DECIMAL(5, 1)>": st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.decimals(-9999, 9999, places=1)
    ),
    "MAP<BIGINT, BOOLEAN>": st.dictionaries(st.integers(-5, 5), st.booleans()),
    "STRUCT<a: INT, b: STRUCT<c: BINARY>>": st.fixed_dictionaries(
        {"a": st.none() | st.integers(0, 9), "b": st.none() | st.fixed_dictionaries({"c": st.binary()})}
    ),
}


@pytest.mark.parametrize("text", VALUES)
@given(data=st.data())
def test_written_values_are_read_back_unchanged(text: str, data: st.DataObject) -> None:
    value = data.draw(st.none() | VALUES[text])
    for form in (json.dumps(written(kind(text), value, "c")), value_text(plain_json(value))):
        assert read(kind(text), json.loads(form, parse_float=Decimal)) == value


def test_infinity_is_text_in_json_with_or_without_the_type() -> None:
    infinity = float("-inf")
    assert plain_json([infinity]) == [written(kind("DOUBLE"), infinity, "c")] == ["-Infinity"]


@pytest.mark.parametrize(
    ("text", "given_as", "kept_as"),
    [
        ("INT", 5.0, 5),
        ("INT", Decimal("5.00"), 5),
        ("DECIMAL(10, 2)", 2.5, Decimal("2.50")),
        ("DECIMAL(10, 2)", "2.5", Decimal("2.50")),
        ("DOUBLE", 1, 1.0),
        ("FLOAT", 0.1, 0.10000000149011612),
        ("DATE", "2024-02-29", date(2024, 2, 29)),
        ("TIMESTAMP", "2024-01-01T07:00:00-05:00", datetime(2024, 1, 1, 12, tzinfo=timezone.utc)),
        ("TIMESTAMP", datetime(2024, 1, 1, 7, tzinfo=NEW_YORK), datetime(2024, 1, 1, 12, tzinfo=timezone.utc)),
        ("TIMESTAMP", "2024-01-01T12:00:00Z", datetime(2024, 1, 1, 12, tzinfo=timezone.utc)),
        ("TIMESTAMP_NTZ", "2024-01-01T12:00:00", datetime(2024, 1, 1, 12)),  # noqa: DTZ001
        ("BINARY", "text", b"text"),
        ("ARRAY<INT>", (1, 2), [1, 2]),
        ("STRUCT<a: INT, b: INT>", {"a": 1}, {"a": 1, "b": None}),
    ],
)
def test_values_that_fit_a_type_are_converted(text: str, given_as: Any, kept_as: Any) -> None:
    assert read(kind(text), written(kind(text), given_as, "c")) == kept_as


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("INT", "5", "c is a number, and '5' is none"),
        ("INT", True, "c is a number, and true is none"),
        ("INT", 2.5, "c is INT, and 2.5 is not"),
        ("INT", 2**31, "c is INT, and 2147483648 is not"),
        ("DECIMAL(4, 2)", 100, "c is DECIMAL(4,2), and 100 is not"),
        ("DECIMAL(4, 2)", "1.005", "c is DECIMAL(4,2), and '1.005' is not"),
        ("DECIMAL(4, 2)", "much", "c is DECIMAL(4,2), and 'much' is not"),
        ("DECIMAL(4, 2)", Decimal("NaN"), "c is a number that one can count with, and NaN is none"),
        ("DOUBLE", "1", "c is DOUBLE, and '1' is not"),
        ("FLOAT", 1e39, "c is FLOAT, and 1e+39 is not"),
        ("DOUBLE", Decimal("1E+400"), "c is DOUBLE, and 1E+400 is not"),
        ("STRUCT<a: STRUCT<b: INT>>", {"a": {"b": 1.5}}, "c.a.b is INT, and 1.5 is not"),
        ("STRING", 1, "c is STRING, and 1 is not"),
        ("VARCHAR(2)", "abc", "c is VARCHAR(2), and 'abc' is not"),
        ("BOOLEAN", 1, "c is BOOLEAN, and 1 is not"),
        ("BINARY", 1, "c is BINARY, and 1 is not"),
        ("DATE", "soon", "c is DATE, and 'soon' is not"),
        ("DATE", datetime(2024, 1, 1), "c is DATE, and 2024-01-01 00:00:00 is not"),  # noqa: DTZ001
        ("TIMESTAMP", 1, "c is TIMESTAMP, and 1 is not"),
        ("TIMESTAMP", "2024-01-01T00:00:00.1234567Z", "c is TIMESTAMP, and '2024-01-01T00:00:00.1234567Z' is not"),
        ("TIMESTAMP", "9999-12-31T23:00:00-02:00", "c is TIMESTAMP, and '9999-12-31T23:00:00-02:00' is not"),
        ("DECIMAL(4, 2)", Decimal("9.999"), "c is DECIMAL(4,2), and 9.999 is not"),
        ("STRING", "\ud800", r"c is STRING, and '\ud800' is not"),
        ("STRING", b"abc", "c is STRING, and 3 bytes is not"),
        ("INT", {"a": None}, 'c is a number, and {"a":null} is none'),
        ("INT", "x" * 99, f"c is a number, and '{'x' * 39}...{'x' * 16}' is none"),
        ("TIMESTAMP_NTZ", "2024-01-01T00:00:00Z", "c is TIMESTAMP_NTZ, and '2024-01-01T00:00:00Z' is not"),
        ("ARRAY<INT>", [1, "a"], "c[1] is a number, and 'a' is none"),
        ("ARRAY<INT>", {1}, "c is ARRAY<INT>, and [1] is not"),
        ("MAP<STRING, INT>", [], "c is MAP<STRING, INT>, and [] is not"),
        ("MAP<STRING, INT>", {1: 1}, "a key of c is STRING, and 1 is not"),
        ("STRUCT<a: INT>", {"b": 1}, "c has no column b: its columns are a"),
        ("STRUCT<a: INT>", [1], "c is STRUCT<`a`: INT>, and [1] is not"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_reason(text: str, value: Any, message: str) -> None:
    with pytest.raises(SerializationError) as error:
        written(kind(text), value, "c")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "value"), [("DATE", "x"), ("DECIMAL(4, 2)", "x"), ("BINARY", "*"), ("ARRAY<INT>", 1), ("DOUBLE", "x")]
)
def test_text_that_is_no_value_of_the_type_cannot_be_read(text: str, value: Any) -> None:
    with pytest.raises(SerializationError, match="cannot be read as"):
        read(kind(text), value)


@pytest.mark.parametrize(
    "equal",
    [
        [("INT", 5), ("BIGINT", 5), ("DECIMAL(10, 2)", Decimal("5.00")), ("DECIMAL(2, 0)", 5), ("BIGINT", 5.0)],
        [("DECIMAL(10, 2)", Decimal("-0.50")), ("DECIMAL(20, 9)", -0.5)],
        [("INT", 0), ("DECIMAL(10, 2)", Decimal("-0.00"))],
        [("STRING", "a"), ("VARCHAR(9)", "a")],
        [("DECIMAL(38, 0)", 10**37), ("DECIMAL(38, 0)", Decimal(10) ** 37)],
    ],
)
def test_equal_keys_of_different_types_have_the_same_text(equal: list[tuple[str, Any]]) -> None:
    assert len({key_text(kind(text), value, "k") for text, value in equal}) == 1


def test_keys_of_different_kinds_differ() -> None:
    keys = [("STRING", "5"), ("INT", 5), ("BOOLEAN", True), ("STRING", "true"), ("DATE", date(2024, 1, 1))]
    assert len({key_text(kind(text), value, "k") for text, value in keys}) == len(keys)
    with pytest.raises(SerializationError, match="the key column k has no value"):
        key_text(kind("INT"), None, "k")


def test_a_key_of_decimals_keeps_all_its_digits() -> None:
    of = columns_of("number DECIMAL(38, 18), name STRING")
    text = TypedText(Serializers("json", "json"), TypedPlan(("number",), of))
    exact = Decimal("12345678901234567890.000000000000000001")
    assert text.key(exact) == str(exact)
    assert text.event_key(text.key(exact)) == exact
    assert text.is_key(text.key(exact))


def test_a_char_has_the_length_of_its_type_and_a_float_32_bits() -> None:
    of = kind("CHAR(4)")
    assert (key_text(of, "é", "c"), read(of, "é"), from_columns(of, "é")) == ('"é   "', "é   ", "é   ")
    assert read(kind("FLOAT"), Decimal("0.1")) == written(kind("FLOAT"), 0.1, "c") == 0.10000000149011612
