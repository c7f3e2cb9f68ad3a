"""Totals of each resource, from its progress rows."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from kaspr_delta.control.rebuilds import Query
from kaspr_delta.serde.instants import moment_of
from kaspr_delta.storage.dialect import DATAFUSION
from kaspr_delta.storage.layout import OF_RESOURCES, PROGRESS
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.warehouse.reads import MOST_ROWS

# The names of the sums, each with its column of the progress table.
_SUMS = {"rows_in": "rows_in", "rows_out": "rows_out", "failures": "dead_letters"}
_OF_LAST_BATCH = ("rows_in", "rows_out", "seconds", "counts")


@dataclass
class Totals:
    """Totals by ``kind/name``.

    ``resources``: rows_in, rows_out, failures (all dead letters that were ever written), last_batch (its time) and last
    (columns of its progress row). ``counters``: see ``engine.batch.counters``.
    """

    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    counters: dict[str, Counter[str]] = field(default_factory=dict)
    # Of each resource, the last batch that is included.
    last: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def summed_counters(self) -> Counter[str]:
        """The counters of all resources together."""
        everything: Counter[str] = Counter()
        for counts in self.counters.values():
            everything.update(counts)
        return everything

    def add(self, row: dict[str, Any]) -> None:
        """Add a batch, later than all those added before."""
        self.last[row["resource"]] = row["checkpoint"], row["batch"]
        done = self.resources.setdefault(row["resource"], dict.fromkeys(_SUMS, 0))
        for name, column in _SUMS.items():
            done[name] += row[column]
        done |= {"last_batch": row["at"], "last": {name: row[name] for name in _OF_LAST_BATCH}}
        self.counters.setdefault(row["resource"], Counter()).update(json.loads(row["counts"] or "{}"))


@dataclass
class LocalTotals:
    """The totals of an application in a folder. Each batch is read once: a refresh reads only new batches.

    A row that sums up older batches (see ``engine.batch.progress``) has the number of the last of them.
    """

    delta: DeltaRs
    keep: float = 1.0
    _totals: Totals = field(default_factory=Totals, init=False)
    _read_at: float = field(default=-1e9, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def read(self) -> Totals:
        """The totals as they are now, or were up to ``keep`` seconds ago."""
        with self._lock:
            if time.monotonic() - self._read_at > self.keep:
                self._totals = self._with_new_batches()
                self._read_at = time.monotonic()
            return self._totals

    def _with_new_batches(self) -> Totals:
        totals = deepcopy(self._totals)  # other threads read the old ones
        columns = ", ".join(dict.fromkeys(("resource", "checkpoint", "batch", "at", *_SUMS.values(), *_OF_LAST_BATCH)))
        new, values = after(totals.last)
        found = f"SELECT {columns} FROM t WHERE {new} AND {OF_RESOURCES} ORDER BY checkpoint, batch"  # noqa: S608
        for row in self.delta.rows(PROGRESS, DATAFUSION.filled(found, values)):
            totals.add(row)
        return totals


def totals_by_spark(query: Query) -> Totals:
    """The totals of an application in a catalog, by a session or a SQL warehouse: two statements at once."""
    with ThreadPoolExecutor() as at_once:
        counters = at_once.submit(_counters_by_resource, query)
        return Totals(sums_by_resource(query), counters.result())


def sums_by_resource(query: Query) -> dict[str, dict[str, Any]]:
    """The totals of resources, by Spark's SQL."""
    sums = ", ".join(f"sum({column}) AS {name}" for name, column in _SUMS.items())
    newest = "max_by({}, struct(checkpoint, batch))".format
    last = newest(f"struct({', '.join(_OF_LAST_BATCH)})")
    rows = query(
        PROGRESS,
        f"SELECT resource, {sums}, to_json({last}) AS last, unix_micros({newest('at')}) AS at"  # noqa: S608
        f" FROM t WHERE {OF_RESOURCES} GROUP BY resource LIMIT {MOST_ROWS}",
    )
    return {
        row["resource"]: {name: int(row[name] or 0) for name in _SUMS}
        | {"last_batch": moment_of(int(row["at"])), "last": json.loads(row["last"])}
        for row in rows
    }


def _counters_by_resource(query: Query) -> dict[str, Counter[str]]:
    rows = query(
        PROGRESS,
        "SELECT resource, counter, sum(times) AS times"  # noqa: S608
        " FROM (SELECT resource, explode(from_json(counts, 'MAP<STRING, BIGINT>')) AS (counter, times)"
        f" FROM t WHERE {OF_RESOURCES}) GROUP BY resource, counter LIMIT {MOST_ROWS}",
    )
    counters: dict[str, Counter[str]] = {}
    for row in rows:
        counters.setdefault(row["resource"], Counter())[row["counter"]] = int(row["times"] or 0)
    return counters


LastBatches = Mapping[str, tuple[str, int]]
"""By ``kind/name``, checkpoint and number of the last known batch. Later batches of a resource compare greater."""


def after(known: LastBatches) -> tuple[str, dict[str, str]]:
    """The SQL condition for progress rows of later batches than the known ones, and its values.

    By batch number, because the clocks of machines differ and jump.

    >>> after({"join/j": ("c2", 7)})[0]
    'NOT (resource = {r0} AND (checkpoint < {c0} OR checkpoint = {c0} AND batch <= 7))'
    """
    conditions, values = [], dict[str, str]()
    for n, (resource, (checkpoint, batch)) in enumerate(known.items()):
        earlier = f"checkpoint < {{c{n}}} OR checkpoint = {{c{n}}} AND batch <= {batch}"
        conditions.append(f"NOT (resource = {{r{n}}} AND ({earlier}))")
        values |= {f"r{n}": resource, f"c{n}": checkpoint}
    return " AND ".join(conditions) or "true", values


def last_of(folded: Mapping[str, Mapping[str, int]]) -> LastBatches:
    """The last batch of each resource (see ``engine.batch.progress.folded_batches``)."""
    return {resource: max(batches.items()) for resource, batches in folded.items()}
