"""The work of an application in a day, a mean of its last days: its batches, and the bytes of its tables' commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta, timezone
from itertools import islice, takewhile

from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.commit_info import CommitInfo
from kaspr_delta.storage.layout import OF_RESOURCES, PROGRESS
from kaspr_delta.storage.page_reads import History, PageReads

DAYS = 7
"""The days up to that of the last batch that are looked at."""

# A table with more commits in these days is looked at for fewer days.
_MOST_COMMITS = 1_000
_COLUMNS = {
    "resource": Type("STRING"),
    "day": Type("DATE"),
    "batches": Type("BIGINT"),
    "rows_in": Type("BIGINT"),
    "rows_out": Type("BIGINT"),
    "seconds": Type("DOUBLE"),
}


@dataclass(frozen=True, slots=True)
class BatchesADay:
    """The batches of one resource in a day, their rows, and the seconds that they took."""

    batches: float
    rows_in: float
    rows_out: float
    seconds: float


@dataclass(frozen=True, slots=True)
class DailyWork:
    """The work of a day: a mean of the days from ``first`` to ``last``, both included.

    ``bytes_added`` and ``bytes_removed`` are those of files of all tables in the schema, whoever wrote them. Removed
    files stay in storage until VACUUM. Nothing records the bytes that batches read.
    """

    first: date
    last: date
    resources: Mapping[str, BatchesADay]
    bytes_added: float
    bytes_removed: float

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @classmethod
    def of(cls, reads: PageReads) -> DailyWork | None:
        """The daily work of an application; None before its first batch."""
        day = "CAST(at AS DATE)"
        sums = ", ".join(f"sum({name}) AS {name}" for name in ("rows_in", "rows_out", "seconds"))
        batches = (
            f"SELECT resource, {day} AS day, count(*) AS batches, {sums} FROM {reads.named(PROGRESS)}"  # noqa: S608
            f" WHERE {OF_RESOURCES} GROUP BY resource, {day}"
        )
        rows = reads.selected(PROGRESS, None, _COLUMNS, batches)
        if not rows:
            return None
        last: date = max(row["day"] for row in rows)
        rows = [row for row in rows if row["day"] > last - timedelta(days=DAYS)]
        first: date = min(row["day"] for row in rows)
        days = (last - first).days + 1
        sums_of = {
            name: {of: sum(row[of] for row in rows if row["resource"] == name) / days for of in list(_COLUMNS)[2:]}
            for name in sorted({row["resource"] for row in rows})
        }
        changed = [_bytes_a_day(reads.history(table), first, last) for table in reads.tables()]
        added, removed = (sum(each) for each in zip((0.0, 0.0), *changed, strict=True))
        return cls(first, last, {name: BatchesADay(**found) for name, found in sums_of.items()}, added, removed)


def _bytes_a_day(history: History, first: date, last: date) -> tuple[float, float]:
    """The bytes that the commits between two days added and removed, by day."""
    newest = filter(None, map(history.commit, islice(reversed(history.versions), _MOST_COMMITS)))
    commits = list(takewhile(lambda commit: _day_of(commit) >= first, newest))
    if len(commits) == _MOST_COMMITS:
        first = min(_day_of(commits[-1]), last)
    found = [commit for commit in commits if _day_of(commit) <= last]
    days: float = (last - first).days + 1
    if found and len(commits) == len(history.versions) and history.versions.start:  # older commits were removed
        days = min(days, (found[0].at - found[-1].at) / timedelta(days=1)) or days
    return sum(one.bytes_added for one in found) / days, sum(one.bytes_removed for one in found) / days


def _day_of(commit: CommitInfo) -> date:
    return commit.at.astimezone(timezone.utc).date()
