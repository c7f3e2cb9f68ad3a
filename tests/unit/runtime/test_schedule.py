"""The times at which tasks are due, and that runs of a task do not overlap."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

import pytest
import time_machine

from kaspr_delta.plan.definition.resources import ResourceRef, SchedulePlan
from kaspr_delta.runtime.firings import firings
from kaspr_delta.runtime.scheduler import tasks_firing

START = datetime(2026, 3, 28, 23, 30, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("schedule", "moments"),
    [
        (None, ["03-28 23:30:00 +0000"]),
        (SchedulePlan(90_000, None, "UTC"), ["03-28 23:31:30 +0000", "03-28 23:33:00 +0000"]),
        (SchedulePlan(None, "0 9 * * mon-fri", "UTC"), ["03-30 09:00:00 +0000", "03-31 09:00:00 +0000"]),
        (SchedulePlan(None, "@daily", "UTC"), ["03-29 00:00:00 +0000", "03-30 00:00:00 +0000"]),
        (SchedulePlan(None, "0 0 ? * 7", "UTC"), ["03-29 00:00:00 +0000", "04-05 00:00:00 +0000"]),
        (SchedulePlan(None, "31 23 * * * 5", "UTC"), ["03-28 23:31:05 +0000", "03-29 23:31:05 +0000"]),
        # The clocks are put forward from two to three.
        (SchedulePlan(None, "30 2 * * *", "Europe/Berlin"), ["03-29 03:00:00 +0200", "03-30 02:30:00 +0200"]),
    ],
)
def test_a_task_is_due_at_once_or_after_its_interval_or_by_cron_in_its_time_zone(
    schedule: SchedulePlan | None, moments: list[str]
) -> None:
    assert [f"{moment:%m-%d %H:%M:%S %z}" for moment in islice(firings(schedule, START), 2)] == moments


class FakeTaskRun:
    """A fake run of a task that lasts some seconds."""

    def __init__(self, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.resource = self.runner = self
        self.ref = ResourceRef("task", "t")
        self.seconds = seconds
        self.error = error
        self.runs = 0
        self.at_once = 0
        self.most_at_once = 0

    def tick(self, _: Any, *, ending: bool) -> int:
        assert not ending
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.seconds)
        self.at_once -= 1
        self.runs += 1
        if self.error is not None:
            raise self.error
        return 1


def fire(
    task_run: FakeTaskRun,
    schedule: SchedulePlan | None,
    seconds: float,
    started: dict[ResourceRef, datetime] | None = None,
) -> list[tuple[ResourceRef, Exception]]:
    failures: list[tuple[ResourceRef, Exception]] = []
    task: Any = task_run
    spark: Any = None
    since = {} if started is None else started
    with tasks_firing(spark, [(task, schedule)], lambda ref, error: failures.append((ref, error)), since):
        time.sleep(seconds)
    assert not any(thread.name == "task/t" for thread in threading.enumerate())
    return failures


def test_a_task_without_a_schedule_runs_once() -> None:
    task_run = FakeTaskRun()
    assert fire(task_run, None, 0.2) == []
    assert task_run.runs == 1


def test_firings_during_a_long_run_are_skipped_and_runs_never_overlap() -> None:
    task_run = FakeTaskRun(seconds=0.25)
    fire(task_run, SchedulePlan(100, None, "UTC"), 0.9)
    assert 2 <= task_run.runs <= 4
    assert task_run.most_at_once == 1


def test_an_error_that_stops_a_task_is_reported() -> None:
    broken = OSError("disk full")
    assert fire(FakeTaskRun(error=broken), None, 0.1) == [(ResourceRef("task", "t"), broken)]


def test_a_task_that_is_not_due_does_not_delay_the_end() -> None:
    task_run = FakeTaskRun()
    started = datetime.now(timezone.utc)
    fire(task_run, SchedulePlan(3_600_000, None, "UTC"), 0.0)
    assert datetime.now(timezone.utc) - started < timedelta(seconds=2)
    assert task_run.runs == 0


def test_a_new_scheduler_keeps_the_start_times_of_tasks() -> None:
    once, hourly, started = FakeTaskRun(), FakeTaskRun(), dict[ResourceRef, datetime]()
    for _ in range(3):
        fire(once, None, 0.2, started)
    assert once.runs == 1
    started = {hourly.ref: datetime.now(timezone.utc) - timedelta(milliseconds=3_599_800)}
    fire(hourly, SchedulePlan(3_600_000, None, "UTC"), 0.6, started)
    assert hourly.runs == 1


def test_an_interval_goes_on_when_the_clock_is_put_back() -> None:
    task_run, began = FakeTaskRun(), time.perf_counter()
    with time_machine.travel(time.time()) as clock:
        threading.Timer(0.1, lambda: clock.move_to(time.time() - 3_600)).start()
        fire(task_run, SchedulePlan(200, None, "UTC"), 0.7)
    # Three in 0.7 s, and more only if a busy machine took longer.
    assert 2 <= task_run.runs <= (time.perf_counter() - began) // 0.2


@pytest.fixture
def often_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at ten times a second."""
    monkeypatch.setattr("kaspr_delta.runtime.scheduler._LOOK", 0.1)


@pytest.mark.usefixtures("often_looked_at")
def test_a_cron_task_runs_when_the_clock_is_put_forward_to_its_time() -> None:
    task_run, noon = FakeTaskRun(), datetime(2026, 3, 30, 12, tzinfo=timezone.utc)
    with time_machine.travel(noon - timedelta(hours=1)) as clock:
        threading.Timer(0.1, lambda: clock.move_to(noon)).start()
        fire(task_run, SchedulePlan(None, "0 12 * * *", "UTC"), 0.5)
    assert task_run.runs == 1


@pytest.mark.usefixtures("often_looked_at")
def test_a_cron_task_runs_once_when_the_clock_is_put_back() -> None:
    task_run, noon = FakeTaskRun(), datetime(2026, 3, 30, 12, tzinfo=timezone.utc)
    with time_machine.travel(noon - timedelta(seconds=0.1)) as clock:
        threading.Timer(0.4, lambda: clock.move_to(noon - timedelta(seconds=0.1))).start()
        fire(task_run, SchedulePlan(None, "0 12 * * *", "UTC"), 0.8)
    assert task_run.runs == 1
