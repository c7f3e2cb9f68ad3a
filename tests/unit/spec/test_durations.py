from __future__ import annotations

import pytest

from kaspr_delta.spec.durations import milliseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("250ms", 250), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("2d", 172_800_000), ("0s", 0)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, expected: int) -> None:
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["", "5", "1w", "1.5h", "1 h", "-1s", "1H", "1s\n", "٣s"])
def test_other_text_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        milliseconds(text)


@pytest.mark.parametrize("text", ["365001d", "3000000d"])
def test_a_duration_ends_before_the_calendar_does(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than a thousand years"):
        milliseconds(text)
    assert milliseconds("365000d") == 365_000 * 86_400_000


@pytest.mark.parametrize("text", ["1234567890ms", "99999999999999999999s"])
def test_a_number_of_many_digits_is_refused_for_these(text: str) -> None:
    with pytest.raises(ValueError, match="has more than 9 digits"):
        milliseconds(text)
