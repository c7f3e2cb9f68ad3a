"""Totals of each resource, from its progress rows, and its current dead letters. Read without Spark."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kaspr_delta.control.batches import after
from kaspr_delta.engine.batch.counters import Metric, as_metrics
from kaspr_delta.storage.layout import DEAD_LETTERS, OF_RESOURCES, PROGRESS
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.sql_text import with_values

# The names of the sums, each with its column of the progress table.
_SUMS = {"rows_in": "rows_in", "rows_out": "rows_out", "failures": "dead_letters"}


@dataclass
class _Sums:
    """By resource, the sums, the counters and the last batch that is included."""

    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    counters: dict[str, Counter[str]] = field(default_factory=dict)
    last: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        """Add a batch, later than all those added before."""
        self.last[row["resource"]] = row["checkpoint"], row["batch"]
        done = self.resources.setdefault(row["resource"], dict.fromkeys(_SUMS, 0))
        for name, column in _SUMS.items():
            done[name] += row[column]
        done["last_batch"] = row["at"]
        self.counters.setdefault(row["resource"], Counter()).update(json.loads(row["counts"] or "{}"))

    def copy(self) -> _Sums:
        counters = {name: Counter(counts) for name, counts in self.counters.items()}
        return _Sums({name: dict(done) for name, done in self.resources.items()}, counters, dict(self.last))


@dataclass
class Totals:
    """The sums of an application on this machine's disk. Each batch is read once: a refresh reads only new batches.

    A row that sums up older batches (see ``engine.batch.progress``) has the number of the last of them.
    """

    delta: DeltaRs
    keep: float = 1.0
    _sums: _Sums = field(default_factory=_Sums, init=False)
    _letters: dict[str, int] = field(default_factory=dict, init=False)
    _read_at: float = field(default=-1e9, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """By ``kind/name``, the totals of a resource: rows_in, rows_out, failures, last_batch and dead_letters.

        ``failures`` counts all dead letters that were ever written, ``dead_letters`` those that exist now.
        """
        done = self._current().resources
        return {name: {**one, "dead_letters": self._letters.get(name, 0)} for name, one in done.items()}

    @property
    def metrics(self) -> list[Metric]:
        """The counters of all resources together."""
        everything: Counter[str] = Counter()
        for counts in self._current().counters.values():
            everything.update(counts)
        return as_metrics(everything)

    @property
    def metrics_by_resource(self) -> dict[str, list[Metric]]:
        """The counters of each resource."""
        return {name: as_metrics(counts) for name, counts in self._current().counters.items()}

    def _current(self) -> _Sums:
        with self._lock:
            if time.monotonic() - self._read_at > self.keep:
                self._sums = self._read()
                self._read_at = time.monotonic()
            return self._sums

    def _read(self) -> _Sums:
        """The sums, with the new batches added."""
        sums = self._sums.copy()  # other threads read the old ones
        columns = ", ".join(("resource", "checkpoint", "batch", "counts", "at", *_SUMS.values()))
        new, values = after(sums.last)
        found = f"SELECT {columns} FROM t WHERE {new} AND {OF_RESOURCES} ORDER BY checkpoint, batch"  # noqa: S608
        for row in self.delta.rows(PROGRESS, with_values(found, values)):
            sums.add(row)
        self._letters = dead_letters_by_resource(self.delta.rows)
        return sums


def dead_letters_by_resource(query: Callable[[str, str], Iterable[Mapping[str, Any]]]) -> dict[str, int]:
    """The number of dead letters by ``kind/name``. ``query`` runs a SELECT over a table named ``t``."""
    counted = "SELECT resource, count(*) AS letters FROM t GROUP BY resource"
    return {row["resource"]: row["letters"] for row in query(DEAD_LETTERS, counted)}
