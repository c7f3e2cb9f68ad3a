"""What resources have done so far, added up from their progress rows, and the dead letters there are; without Spark."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from kaspr_delta.engine.counters import Metric, as_metrics
from kaspr_delta.storage.delta_rs import DeltaRs
from kaspr_delta.storage.layout import DEAD_LETTERS, OF_RESOURCES, PROGRESS
from kaspr_delta.storage.system_tables import LocalSystemTables, SparkSystemTables

# Rows older than this are settled: whoever writes one has committed it by then. They are read once.
_SETTLED = timedelta(minutes=10)
# What is added up, and of which column of the progress.
_SUMS = {"rows_in": "rows_in", "rows_out": "rows_out", "failures": "dead_letters"}
_BEGINNING = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass
class _Sums:
    """Sums by resource, and the counters of each."""

    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    counters: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        done = self.resources.setdefault(row["resource"], {**dict.fromkeys(_SUMS, 0), "last_batch": row["at"]})
        for name, column in _SUMS.items():
            done[name] += row[column]
        done["last_batch"] = max(done["last_batch"], row["at"])
        self.counters.setdefault(row["resource"], Counter()).update(json.loads(row["counts"] or "{}"))

    def copy(self) -> _Sums:
        counters = {name: Counter(counts) for name, counts in self.counters.items()}
        return _Sums({name: dict(done) for name, done in self.resources.items()}, counters)


@dataclass
class Totals:
    """The sums of an application on this machine's disk. Reading them costs as much as happened lately.

    Rows that stand for older ones that were summed up (see ``engine.progress``) are as old as those: no sum changes.
    """

    delta: DeltaRs
    keep: float = 1.0
    clock: Callable[[], datetime] = _utc_now
    _settled: _Sums = field(default_factory=_Sums, init=False)
    _upto: datetime = field(default=_BEGINNING, init=False)
    _now: _Sums = field(default_factory=_Sums, init=False)
    _letters: dict[str, int] = field(default_factory=dict, init=False)
    _read_at: float = field(default=-1e9, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """By ``kind/name`` what a resource has done: rows_in, rows_out, failures and last_batch.

        ``failures`` counts all that ever became a dead letter, ``dead_letters`` those that are there by now.
        """
        done = self._current().resources
        return {name: {**one, "dead_letters": self._letters.get(name, 0)} for name, one in done.items()}

    @property
    def metrics(self) -> list[Metric]:
        """All counters."""
        everything: Counter[str] = Counter()
        for counts in self._current().counters.values():
            everything.update(counts)
        return as_metrics(everything)

    @property
    def metrics_by_resource(self) -> dict[str, list[Metric]]:
        """The counters that each resource has counted."""
        return {name: as_metrics(counts) for name, counts in self._current().counters.items()}

    def _current(self) -> _Sums:
        with self._lock:
            if time.monotonic() - self._read_at > self.keep:
                self._read()
                self._read_at = time.monotonic()
            return self._now

    def _read(self) -> None:
        settled = self.clock() - _SETTLED
        columns = ", ".join(("resource", "counts", "at", *_SUMS.values()))
        condition = f"{OF_RESOURCES} AND at > TIMESTAMP '{self._upto:%Y-%m-%dT%H:%M:%S.%fZ}'"
        recent = []
        for batch in self.delta.query(PROGRESS, f"SELECT {columns} FROM t WHERE {condition}"):  # noqa: S608
            for row in batch.to_pylist():
                if row["at"] <= settled:
                    self._settled.add(row)
                else:
                    recent.append(row)
        self._upto, self._now = settled, self._settled.copy()
        for row in recent:
            self._now.add(row)
        self._letters = dead_letters_by_resource(LocalSystemTables(self.delta))


def dead_letters_by_resource(system: LocalSystemTables | SparkSystemTables) -> dict[str, int]:
    """How many dead letters there are, by ``kind/name``."""
    counted = "SELECT resource, count(*) AS letters FROM t GROUP BY resource"
    return {row["resource"]: row["letters"] for row in system.query(DEAD_LETTERS, counted)}
