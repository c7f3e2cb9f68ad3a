from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

from kaspr_delta.control.dead_letters import letters_in, summed_by_resource
from kaspr_delta.control.totals import LocalTotals
from kaspr_delta.engine.batch.counters import Metric, as_metrics, counter
from kaspr_delta.storage.layout import DEAD_LETTERS, PROGRESS
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.system_tables import NativeSystemTables

NOW = datetime.now(timezone.utc)
READ = counter("table_operations", "users", "keys_retrieved")


def batch(resource: str, number: int, rows: int, age: timedelta = timedelta()) -> tuple[object, ...]:
    return (resource, "c00000001-a", number, rows, 2 * rows, rows, 0, 0, 0.1, json.dumps({READ: rows}), NOW - age)


def test_a_batch_is_counted_once_also_when_older_ones_are_summed_up(delta: DeltaRs) -> None:
    system, totals = NativeSystemTables(delta), LocalTotals(delta, keep=-1)
    assert totals.read().resources == {}
    system.append(PROGRESS, [batch("agent/a", 0, 2), batch("agent/a", 1, 3), batch("agent/a", 2, 1)])
    for _ in range(2):
        assert totals.read().resources["agent/a"]["rows_in"] == 6
        assert totals.read().resources["agent/a"]["rows_out"] == 12
    # Old batches are summed up in one row, and new ones come.
    system.replace(PROGRESS, [batch("agent/a", 1, 5), batch("agent/a", 2, 1)])
    system.append(PROGRESS, [batch("agent/a", 3, 10), batch("join/j", 0, 7)])
    for one in (totals, LocalTotals(delta)):
        assert {name: done["rows_in"] for name, done in one.read().resources.items()} == {"agent/a": 16, "join/j": 7}
        assert as_metrics(one.read().summed_counters) == [
            Metric("table_operations", {"table": "users", "operation": "keys_retrieved"}, 23)
        ]


def test_a_batch_is_counted_even_if_its_time_is_before_that_of_earlier_ones(delta: DeltaRs) -> None:
    system, totals = NativeSystemTables(delta), LocalTotals(delta, keep=-1)
    ages = (timedelta(), timedelta(days=1), timedelta(hours=-3), timedelta(hours=1))
    for number, age in enumerate(ages):
        system.append(PROGRESS, [batch("agent/a", number, 1, age)])
        assert totals.read().resources["agent/a"]["rows_in"] == number + 1
        assert totals.read().resources["agent/a"]["last_batch"] == NOW - age


def test_totals_have_all_failures_and_present_dead_letters_are_counted(delta: DeltaRs) -> None:
    system, totals = NativeSystemTables(delta), LocalTotals(delta, keep=-1)
    system.append(PROGRESS, [batch("agent/a", 0, 3), batch("agent/a", 1, 2)])
    letters = [(name, "t", "k", "v", "event failed", "", NOW, 0, NOW) for name in ("agent/a", "agent/a", "join/j")]
    system.append(DEAD_LETTERS, letters)
    assert totals.read().resources["agent/a"]["failures"] == 5
    assert summed_by_resource(letters_in(system.query)) == {"agent/a": 2, "join/j": 1}
    delta.delete(DEAD_LETTERS, "resource = 'agent/a'")
    assert totals.read().resources["agent/a"]["failures"] == 5
    assert summed_by_resource(letters_in(system.query))["agent/a"] == 0
