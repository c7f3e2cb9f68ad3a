from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import islice

import pytest
from cronsim import CronSim
from databricks.bundles.jobs import CronSchedule
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.jobs.trigger import quartz_of, trigger_of
from kaspr_delta.plan.definition.resources import SchedulePlan
from kaspr_delta.spec.cron import cron_problem, for_cronsim, quartz_problem

MINUTE = 60_000
QUARTZ_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


def fires(quartz: str, moment: datetime) -> bool:
    """Whether quartz cron text, read as Databricks documents it, fires at a moment."""
    second, minute, hour, day, month, weekday = quartz.split()
    return all((
        matches(second, moment.second, 0, 59),
        matches(minute, moment.minute, 0, 59),
        matches(hour, moment.hour, 0, 23),
        matches(day, moment.day, 1, 31),
        matches(month, moment.month, 1, 12, MONTHS),
        weekday == "?" or QUARTZ_WEEKDAYS[moment.weekday()] in weekday.split(","),
    ))  # fmt: skip


def matches(field: str, value: int, low: int, high: int, words: tuple[str, ...] = ()) -> bool:
    def number(text: str) -> int:
        return words.index(text) + low if text in words else int(text)

    def of_part(part: str) -> bool:
        span, _, step = part.partition("/")
        if span in {"*", "?"}:
            first, last = low, high
        else:
            begin, _, end = span.partition("-")
            first = number(begin)
            last = number(end) if end else high if step else first
        return first <= value <= last and (value - first) % int(step or 1) == 0

    return any(map(of_part, field.split(",")))


@pytest.mark.parametrize(
    ("cron", "quartz"),
    [
        ("*/15 * * * *", "0 */15 * * * ?"),
        ("0 9 * * mon-fri", "0 0 9 ? * MON,TUE,WED,THU,FRI"),
        ("0 9 * * 0", "0 0 9 ? * SUN"),
        ("0 9 * * 5-7", "0 0 9 ? * FRI,SAT,SUN"),
        ("0 9 * * */2", "0 0 9 ? * SUN,TUE,THU,SAT"),
        ("0 9 1,15 jan *", "0 0 9 1,15 JAN ?"),
        ("@daily", "0 0 0 * * ?"),
        ("30 4 ? * * 20", "20 30 4 * * ?"),
    ],
)
def test_cron_text_is_translated_to_quartz(cron: str, quartz: str) -> None:
    assert quartz_of(cron) == quartz


@pytest.mark.parametrize("cron", ["0 0 13 * fri", "* * * * * */10", "* * * * * *", "0 0 */2 * 1"])
def test_cron_text_without_a_quartz_equivalent_is_not_translated(cron: str) -> None:
    assert cron_problem(cron) is None
    assert quartz_of(cron) is None


def part(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    spans = st.tuples(numbers, numbers).map(lambda ends: f"{min(ends)}-{max(ends)}")
    # cronsim reads a span of one value with a step, such as 5-5/2, as 5/2: without an end.
    wide = st.tuples(numbers, numbers).filter(lambda ends: ends[0] < ends[1]).map(lambda ends: f"{ends[0]}-{ends[1]}")
    steps = st.tuples(st.one_of(wide, st.just("*")), st.integers(1, 9)).map(lambda both: f"{both[0]}/{both[1]}")
    return st.one_of(numbers.map(str), spans, steps)


def cron_field(low: int, high: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.lists(part(low, high), min_size=1, max_size=3).map(",".join))


days = st.one_of(
    st.tuples(cron_field(1, 31), cron_field(1, 12), st.just("*")),
    st.tuples(st.just("*"), cron_field(1, 12), cron_field(0, 7)),
)
crons = st.tuples(cron_field(0, 59), cron_field(0, 23), days).map(lambda f: " ".join((f[0], f[1], *f[2])))


@given(crons.filter(lambda cron: cron_problem(cron) is None), st.integers(0, 365 * 24))
def test_quartz_text_fires_at_the_moments_of_the_cron_text(cron: str, hours: int) -> None:
    quartz = quartz_of(cron)
    assert quartz is not None
    assert quartz_problem(quartz) is None
    start = datetime(2027, 1, 1, tzinfo=timezone.utc) + timedelta(hours=hours)
    previous = start
    for moment in islice(CronSim(for_cronsim(cron), start), 5):
        assert fires(quartz, moment)
        # Six samples in between: none of them fires.
        between = (previous + (moment - previous) * share / 7 for share in range(1, 7))
        sampled = {one.replace(second=0, microsecond=0) for one in between} - {previous, moment}
        assert not [one for one in sampled if previous < one < moment and fires(quartz, one)]
        previous = moment


@pytest.mark.parametrize(
    ("minutes", "periodic"),
    [
        (1, (1, "MINUTES")),
        (90, (90, "MINUTES")),
        (120, (2, "HOURS")),
        (24 * 60, (1, "DAYS")),
        (14 * 24 * 60, (2, "WEEKS")),
    ],
)
def test_an_interval_is_a_periodic_trigger_in_its_largest_unit(minutes: int, periodic: tuple[int, str]) -> None:
    trigger = trigger_of(SchedulePlan(minutes * MINUTE, None, "UTC"))
    assert trigger is not None
    interval, unit = periodic
    assert trigger.as_dict() == {"periodic": {"interval": interval, "unit": unit}}


@pytest.mark.parametrize("milliseconds", [1_000, 90_000, MINUTE + 1])
def test_an_interval_that_is_no_whole_number_of_minutes_has_no_trigger(milliseconds: int) -> None:
    assert trigger_of(SchedulePlan(milliseconds, None, "UTC")) is None


def test_a_cron_schedule_keeps_its_time_zone() -> None:
    trigger = trigger_of(SchedulePlan(None, "15 6 * * 1-5", "Europe/Berlin"))
    assert trigger == CronSchedule(quartz_cron_expression="0 15 6 ? * MON,TUE,WED,THU,FRI", timezone_id="Europe/Berlin")
