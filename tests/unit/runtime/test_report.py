from __future__ import annotations

import json

from rich.console import Console

from kaspr_delta.cli.status import last_batches
from kaspr_delta.engine.batch.counters import counter, work
from kaspr_delta.engine.batch.progress import BatchReport
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.report import LastBatch, ResourceReport, RunReport, Status, StatusLine

COUNTS = {
    work("decide"): 1_240,
    work("commit"): 300,
    work("fold"): 2_900,
    work("rows"): 2,
    work("copied"): 125_000,
    work("rewritten"): 1,
    counter("table_operations", "orders", "set"): 7,
}


def test_the_last_batch_has_seconds_of_steps_and_counts_of_merges() -> None:
    batch = LastBatch.of(1, 1, 4.5, json.dumps(COUNTS))
    assert batch.steps == {"decide": 1.24, "commit": 0.3, "fold": 2.9}
    assert (batch.merged, batch.copied, batch.rewritten) == (2, 125_000, 1)


def test_a_batch_without_counts_has_no_steps_and_no_merges() -> None:
    batch = LastBatch.of(1, 1, 4.5, None)
    assert (batch.steps, batch.merged) == ({}, None)


def test_a_wide_status_shows_rows_files_and_seconds_of_the_last_batch() -> None:
    last = LastBatch.of(1, 1, 4.5, json.dumps(COUNTS))
    ran = StatusLine(ResourceRef("join", "orders-products"), "ran", 1, 1, 0, None, last)
    new = StatusLine(ResourceRef("agent", "ingest"), "new")
    console = Console(width=200)
    with console.capture() as shown:
        console.print(last_batches(Status((ran, new), ())))
    heading, row = shown.get().splitlines()
    names = ("rows merged", "rows copied", "files rewritten", "decide (s)", "fold (s)")
    assert [name for name in names if name not in heading] == []
    assert row.split() == ["join/orders-products", "1", "1", "2", "125000", "1", "1.2", "0.3", "2.9", "4.5"]


def test_a_run_report_sums_the_batches_of_each_resource() -> None:
    join, agent = ResourceRef("join", "priced"), ResourceRef("agent", "count")
    batches = [
        (join, BatchReport(1, 2, 3, 4, 5, 0.5)),
        (agent, BatchReport(9, 0, 0, 0, 0, 1.0)),
        (join, BatchReport(10, 20, 30, 40, 50, 0.25)),
    ]
    report = RunReport.of(batches, {join: "another select"})
    assert report.resources == {
        "join/priced": ResourceReport(2, 11, 22, 33, 44, 55, 0.75),
        "agent/count": ResourceReport(1, 9, 0, 0, 0, 0, 1.0),
    }
    assert report.rebuilt == {"join/priced": "another select"}
