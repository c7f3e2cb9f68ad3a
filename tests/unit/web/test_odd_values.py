"""Values that few tables have, on pages and in downloads."""

from __future__ import annotations

import io
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow.parquet
import pytest

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.serde.unfolded import parsed
from kaspr_delta.web.overview import Line, _in_order
from kaspr_delta.web.parts.download import download
from kaspr_delta.web.parts.listing import _test, moment_of
from kaspr_delta.web.parts.schedule import _cron_in_words

NINE = datetime(2026, 1, 1, 9, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("test", "passing", "failing"),
    [
        ("= 9.99", Decimal("9.99"), Decimal("9.98")),
        (">= 9.99", Decimal("9.99"), 9.98),
        ("= 9007199254740993", 9007199254740993, 9007199254740992),
        (">= .5", 0.5, 0.1),
        (">= 1e3", 1000, 200),
        ("= 1", 1.0, True),
        ("< 1", 0, float("nan")),
        (">= 2026-01-01 09:00:00", NINE, datetime(2026, 1, 1, 8, tzinfo=timezone.utc)),
        ("= 2026-01-01T10:00:00+01:00", NINE, datetime(2026, 1, 1, 10, tzinfo=timezone.utc)),
        ("> b", "c", "a"),
    ],
)
def test_cells_are_compared_as_exact_numbers_moments_or_texts(test: str, passing: Any, failing: Any) -> None:
    assert (_test(test)(passing), _test(test)(failing)) == (True, False)


def test_json_with_half_a_surrogate_pair_stays_text() -> None:
    cut, whole = '{"x":"cut \\ud83d"}', '{"x":"\\ud83d\\ude00"}'
    assert parsed([{"value": cut}, {"value": whole}], {"value"}) == [{"value": cut}, {"value": {"x": "😀"}}]


def test_objects_without_fields_are_json_text_in_parquet() -> None:
    rows = [{"value": {"p": 1, "note": {}}}, {"value": {"p": 2, "note": {}}}]
    answer = download([(row, row) for row in rows], "parquet", "things")
    table = pyarrow.parquet.read_table(io.BytesIO(answer.body))
    assert table["value"].to_pylist() == [{"p": 1, "note": "{}"}, {"p": 2, "note": "{}"}]


def test_a_moment_beyond_the_calendar_is_none() -> None:
    assert moment_of("0001-01-01T00:00+14:00") is None
    assert moment_of("2026-01-01T10:00+01:00") == NINE


def test_only_steps_that_divide_an_hour_are_said_in_words() -> None:
    assert _cron_in_words("*/15 * * * *") == "every 15 minutes"
    assert _cron_in_words("*/45 * * * *") == "by cron */45 * * * *"


def test_only_what_is_known_is_said_to_be_in_order() -> None:
    def line(lag: int | str | None, letters: int | str) -> Line:
        return Line(ResourceRef("join", "a"), 1, None, None, lag, letters)

    assert _in_order([line(0, 0), line(None, 0)]) == "No dead letters, no lag, and none waits."
    assert _in_order([line(None, 0)]) == "No dead letters, and none waits."
    assert _in_order([line("gone", "gone")]) == "None waits."
