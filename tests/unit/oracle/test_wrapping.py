from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.case import Case, Expected, text
from tests.oracle.wrapping import StrayResultError, joined, owner, unwrapped, wrapped, wrapped_key

CASE = Case("a case", "stream-stream", "outer", {"grace_ms": 5}, (), (), Expected(()))
LEFT, RIGHT = wrapped(7, CASE, {"v": 1}), wrapped(7, CASE, {"w": 2})


def test_a_wrapped_value_has_its_case_and_parameters() -> None:
    assert LEFT == {"case": 7, "params": {"grace_ms": 5}, "row": {"v": 1}}
    assert unwrapped(LEFT) == {"v": 1}


def test_none_is_not_wrapped() -> None:
    assert (wrapped(7, CASE, None), wrapped_key(7, None), unwrapped(None)) == (None, None, None)


def test_a_result_of_a_join_is_unwrapped_to_the_recorded_text() -> None:
    assert joined({"left": LEFT, "right": RIGHT}) == text({"left": {"v": 1}, "right": {"w": 2}})
    assert joined({"left": None, "right": RIGHT}) == text({"left": None, "right": {"w": 2}})
    assert joined(None) is None


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ((7, "k"), None, (7, "k")),
        ([7, "k"], 3, (7, "k")),
        (None, {"left": LEFT, "right": None}, (7, None)),
        (None, {"left": None, "right": RIGHT}, (7, None)),
        (None, RIGHT, (7, None)),
    ],
)
def test_the_case_of_a_result_is_in_its_key_or_else_in_its_value(key: Any, value: Any, expected: Any) -> None:
    assert owner(key, value) == expected


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (None, 3), ("k", LEFT), (("k", 1), LEFT), (None, {"left": None, "right": 1})]
)
def test_a_result_of_no_case_is_refused(key: Any, value: Any) -> None:
    with pytest.raises(StrayResultError, match="belongs to no case"):
        owner(key, value)
