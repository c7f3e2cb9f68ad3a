from __future__ import annotations

import json
from collections import deque
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.json_text import canonical_key, is_canonical, parse, value_text


class Colour(Enum):
    RED = "red"


class Money:
    def __json__(self) -> dict[str, int]:
        return {"cents": 5}


class Broken:
    def __json__(self) -> None:
        raise KeyError("no text")


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


# Pieces of valid and invalid JSON: exponents, signs, blanks, escapes, lone surrogates, a byte order mark.
WORDS = ("null", "true", "NaN", "Infinity", "\\ud800", "\\ude00", '"a"', "1e400")
PIECES = st.sampled_from([*'{}[]:,"\\-+.eE01 \n\x01123é\ufeff', *WORDS])


def as_python_reads(text: str) -> Any:
    def refuse(_: str) -> None:
        raise ValueError

    try:
        return repr(json.loads(text, parse_constant=refuse))
    except ValueError:
        return SerializationError


def as_read_here(text: str | bytes) -> Any:
    try:
        return repr(parse(text))
    except SerializationError:
        return SerializationError


@given(st.lists(PIECES, max_size=12).map("".join) | JSON.map(lambda value: json.dumps(value, indent=1)))
@example(f"[{'9' * 400}, -0, -0.0, 1.7976931348623159e308, 2.2250738585072011e-308]")
@example("1" + "0" * 5_000)
@example('"\\ud800"')
@example('{"a": 1, "a": 2}')
def test_json_is_read_as_python_reads_it(text: str) -> None:
    expected = as_python_reads(text)
    assert as_read_here(text) == expected
    assert as_read_here(text.encode()) == expected


@given(JSON)
def test_values_are_read_back_unchanged(value: Any) -> None:
    assert parse(value_text(value)) == value


@given(JSON | st.dictionaries(st.integers() | TEXT | st.booleans(), JSON, max_size=5))
def test_written_keys_are_canonical(key: Any) -> None:
    assert is_canonical(canonical_key(key))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("P100", '"P100"'),
        ("", '""'),
        (1, "1"),
        ("1", '"1"'),
        (1.0, "1.0"),
        (True, "true"),
        (0, "0"),
        ("Zoë", '"Zoë"'),
        ("😀", '"😀"'),
        ("a\n", '"a\\n"'),
        (("eu", 1), '["eu",1]'),
        (["eu", 1], '["eu",1]'),
        ({"b": 1, "a": {"d": 1, "c": 2}}, '{"a":{"c":2,"d":1},"b":1}'),
        ({9: 1, 10: 2}, '{"10":2,"9":1}'),
        ({1: "number", "1": "text"}, '{"1":"text"}'),
    ],
)
def test_every_key_has_one_spelling(key: Any, text: str) -> None:
    assert canonical_key(key) == text


@pytest.mark.parametrize(
    "text", ["P100", '{"b":1,"a":2}', '"\\u005a"', ' "a"', "1e2", "-0", '{"a":1,"a":1}', "NaN", "", "[1, 2]", "'a'"]
)
def test_another_spelling_is_not_canonical(text: str) -> None:
    assert not is_canonical(text)


def test_values_keep_the_order_of_their_names() -> None:
    assert value_text({"b": 1, "a": [1, "ü"]}) == '{"b":1,"a":[1,"ü"]}'


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime(2024, 5, 1, 12, tzinfo=timezone.utc), "2024-05-01T12:00:00Z"),
        (datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))), "2024-05-01T12:00:00+02:00"),
        (datetime(2024, 5, 1, 12), "2024-05-01T12:00:00"),  # noqa: DTZ001  a moment without a zone stays so
        (date(2024, 5, 1), "2024-05-01T00:00:00"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"x", "b'x'"),
        (Colour.RED, "red"),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset("ba"), ["a", "b"]),
        (deque([2, 1]), [2, 1]),
        ((1, 2), [1, 2]),
        (Money(), {"cents": 5}),
        ({1: "one", None: 0}, {"1": "one", "null": 0}),
    ],
)
def test_other_python_objects_are_written_by_kasprs_rules(value: Any, plain: Any) -> None:
    assert json.loads(value_text(value)) == plain


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


@pytest.mark.parametrize(
    "value",
    [
        *(float("nan"), float("inf"), [float("-inf")], {"x": float("nan")}),
        *("\ud800", {"a": ["\udfff"]}, {"\ud800": 1}),
        *(object(), {(1, 2): 3}, 1j, Broken(), lambda: 1, circle(), deep()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_json_text_is_refused_with_its_type(value: Any) -> None:
    for written in (value_text, canonical_key):
        with pytest.raises(SerializationError, match=type(value).__name__):
            written(value)


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "-Infinity", b"\xff", b"", "{", "abc", pytest.param("[" * 100_000, id="deep")]
)
def test_text_that_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(SerializationError, match="not JSON"):
        parse(text)
