from __future__ import annotations

import pytest

from kaspr_delta.spec.cron import cron_problem


@pytest.mark.parametrize(
    "text",
    ["* * * * *", "*/15 0-6,22 1 jan-mar MON-FRI", "0 9 * * * 30", "@daily", "0 0 ? * 7", "5/10 * * * *"],
)
def test_a_cron_text_has_five_fields_or_seconds_last(text: str) -> None:
    assert cron_problem(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("* * * *", "a cron text has 5 fields (or 6, with seconds last), '* * * *' has 4"),
        ("60 * * * *", "minute '60' is not between 0 and 59"),
        ("* 24 * * *", "hour '24' is not between 0 and 23"),
        ("* * 0 * *", "day of the month '0' is not between 1 and 31"),
        ("* * * foo *", "month 'foo' is not between 1 and 12"),
        ("*/0 * * * *", "the step of '*/0' is zero"),
        ("9-5 * * * *", "'9-5' ends before it begins"),
        ("*-5 * * * *", "'*-5' is no minute"),
        ("1,,2 * * * *", "'' is no minute"),
    ],
)
def test_a_wrong_cron_text_is_refused_with_the_reason(text: str, problem: str) -> None:
    assert cron_problem(text) == problem
