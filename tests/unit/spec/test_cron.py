from __future__ import annotations

import pytest

from kaspr_delta.spec.cron import cron_problem, quartz_firings_a_day, quartz_problem, timezone_problem


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
        ("*/0 * * * *", "minute '*/0' has a step that is not between 1 and 59"),
        ("9-5 * * * *", "minute '9-5' ends before it begins"),
        ("*-5 * * * *", "minute '*-5' is a range without a beginning"),
        ("1,,2 * * * *", "minute '' is not understood"),
    ],
)
def test_a_wrong_cron_text_is_refused_with_the_reason(text: str, problem: str) -> None:
    assert cron_problem(text) == problem


@pytest.mark.parametrize(
    "text",
    [
        "0 0/15 * * * ?",
        "0 0 6 ? * MON-FRI",
        "0 0 6 ? * mon,wed",
        "0 30 4 1 * ? 2027",
        "0 0 12 L * ?",
        "0 0 12 L-3 * ?",
        "0 0 12 15W * ?",
        "0 0 12 ? * 6L",
        "0 0 12 ? JAN-MAR FRI#2",
        "*/30 * * * * ?",
    ],
)
def test_quartz_text_is_accepted(text: str) -> None:
    assert quartz_problem(text) is None


@pytest.mark.parametrize(
    ("text", "a_year"),
    [
        ("0 0/15 * * * ?", 96 * 365.25),
        ("0 0 22-2 * * ?", 5 * 365.25),  # a range may go over midnight
        ("0,30 5,10 9-17/4 ? * *", 12 * 365.25),
        ("0 0 6 ? * MON-FRI", 365.25 * 5 / 7),
        ("0 0 6 ? * 2-6 2026", 365.25 * 5 / 7),
        ("0 0 6 ? * FRI-MON", 365.25 * 4 / 7),
        ("0 0 6 ? * L", 365.25 / 7),  # each Saturday
        ("0 0 6 ? * 6L,MON#2", 24),
        ("0 0 6 L-3,15W * ?", 24),
        ("0 0 6 1,31 JAN-MAR ?", 5),
        ("0 0 6 29 2 ?", 0.25),
    ],
)
def test_quartz_text_fires_so_often(text: str, a_year: float) -> None:
    assert quartz_problem(text) is None
    assert quartz_firings_a_day(text) * 365.25 == pytest.approx(a_year)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has 0 fields"),
        ("*/15 * * * *", "has 5 fields"),
        ("0 0 6 * * MON 2027 x", "has 8 fields"),
        ("0 60 * * * ?", "minute '60' is not between 0 and 59"),
        ("0 0 24 * * ?", "hour '24' is not between 0 and 23"),
        ("0 0 6 ? * FUN", "day of the week 'FUN' is not between 1 and 7"),
        ("0 0 6 ? * 0", "day of the week '0' is not between 1 and 7"),
        ("0 0 6 0 * ?", "day of the month '0' is not between 1 and 31"),
        ("0 0/0 6 1 * ?", "minute '0/0' has a step that is not between 1 and 59"),
        ("0 5-99 6 1 * ?", "minute '5-99' is not between 0 and 59"),
        ("0 *-5 6 1 * ?", "minute '*-5' is a range without a beginning"),
        ("0 a+b 6 1 * ?", "minute 'A+B' is not understood"),
        ("0 0 6 * * *", "exactly one of day of the month and day of the week is '?'"),
        ("0 0 6 ? * ?", "exactly one of day of the month and day of the week is '?'"),
    ],
)
def test_other_text_is_refused_with_the_field_that_is_wrong(text: str, problem: str) -> None:
    assert problem in (quartz_problem(text) or "")


def test_time_zones_are_those_of_the_database() -> None:
    assert timezone_problem("Europe/Berlin") is None
    assert (
        timezone_problem("Europe/Atlantis")
        == "'Europe/Atlantis' is no time zone, expected a name such as Europe/Berlin"
    )
