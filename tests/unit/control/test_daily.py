from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.control import daily
from kaspr_delta.control.daily import BatchesADay, DailyWork
from kaspr_delta.storage.commit_info import CommitInfo
from kaspr_delta.storage.layout import PROGRESS, RESULT, state_ref
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.page_reads import History

LAST = datetime(2026, 3, 10, 12, tzinfo=timezone.utc)


def batch(resource: str, number: int, rows: int, days_ago: int = 0) -> tuple[object, ...]:
    at = LAST - timedelta(days=days_ago)
    return (resource, "c00000001-a", number, rows, 2 * rows, 0, 0, 0, 1.5, "{}", at)


def test_batches_are_a_mean_of_the_last_days(delta: DeltaRs) -> None:
    reads = NativePageReads(delta)
    assert DailyWork.of(reads) is None
    progress = [
        *(batch("agent/a", number, 10, days_ago) for number, days_ago in enumerate((7, 3, 0, 0))),
        batch("join/j", 0, 8, 1),
        batch(state_ref("join/j"), 0, 8),
    ]
    NativeSystemTables(delta).append(PROGRESS, progress)
    found = DailyWork.of(reads)
    assert found is not None
    # A batch of a week ago is too old: four days are left.
    assert (found.first, found.last, found.days) == (date(2026, 3, 7), date(2026, 3, 10), 4)
    assert found.resources == {
        "agent/a": BatchesADay(batches=0.75, rows_in=7.5, rows_out=15, seconds=1.125),
        "join/j": BatchesADay(batches=0.25, rows_in=2, rows_out=4, seconds=0.375),
    }


def test_bytes_are_those_of_the_files_that_commits_added_and_removed(delta: DeltaRs) -> None:
    delta.ensure("j", RESULT)
    for key in ("a", "b"):
        delta.replace("j", pa.table({"key": [key], "left": ["x"], "right": [None], "timestamp": [LAST]}))
    reads = NativePageReads(delta)
    assert reads.tables() == ["j"]
    commits = [reads.history("j").commit(version) for version in range(3)]
    sizes = [(commit.bytes_added, commit.bytes_removed) for commit in commits if commit]
    assert sizes[0] == (0, 0)
    assert sizes[1][0] > sizes[1][1] == 0
    assert sizes[2][1] == sizes[1][0]  # the file of the commit before


def commits(*days_ago: int) -> History:
    made = [
        CommitInfo(version, LAST - timedelta(days=ago), "WRITE", 1, bytes_added=100, bytes_removed=10)
        for version, ago in enumerate(days_ago)
    ]
    return History(range(len(made)), dict(enumerate(made)).get)


def test_bytes_are_those_of_the_time_that_the_log_of_a_table_reaches_back_to() -> None:
    """The commits of a table that nobody follows are kept for minutes."""
    made = [CommitInfo(7 + hour, LAST + timedelta(hours=hour), "WRITE", 1, bytes_added=100) for hour in range(7)]
    history = History(range(7, 14), {one.version: one for one in made}.get)
    assert work_of(history).bytes_added == 7 * 100 * 24 / 6
    assert work_of(History(range(7, 8), {7: made[0]}.get)).bytes_added == 100 / 4


def work_of(history: History) -> DailyWork:
    day = {"resource": "agent/a", "batches": 1, "rows_in": 1, "rows_out": 1, "seconds": 1.0}
    rows = [{**day, "day": (LAST - timedelta(days=ago)).date()} for ago in (3, 0)]
    reads: Any = SimpleNamespace(named=str, selected=lambda *_: rows, tables=lambda: ["t"], history=lambda _: history)
    found = DailyWork.of(reads)
    assert found is not None
    return found


def test_bytes_are_counted_for_the_days_of_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    found = work_of(commits(9, 3, 1, 0))
    assert (found.bytes_added, found.bytes_removed) == (3 * 100 / 4, 3 * 10 / 4)
    # If only the newest commits are read, a day has as much as on the days of those.
    monkeypatch.setattr(daily, "_MOST_COMMITS", 2)
    assert work_of(commits(9, 3, 1, 0)).bytes_added == 2 * 100 / 2
    assert work_of(commits(5, -2, -1)).bytes_added == 0
