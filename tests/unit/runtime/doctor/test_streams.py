from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.runtime.doctor import streams
from kaspr_delta.storage.heartbeat import Lease
from tests.unit.runtime.doctor.fake import FakeRows, FakeStream, FakeTables, answer_of, bench_on, with_faults


@pytest.mark.parametrize("name", ["batch worker", "temporary folder", "spill", "lease", "endless stream"])
def test_streams_whose_batches_share_all_with_the_run_are_ok(tmp_path: Path, name: str) -> None:
    answer = answer_of(bench_on(tmp_path), "stream", name)
    assert answer.grade == "ok", answer
    assert answer_of(bench_on(tmp_path), "stream").grade == "ok"


def tables_with(**faults: Any) -> type[FakeTables]:
    return with_faults(FakeTables, stream=lambda *given: with_faults(FakeStream, **faults)(given[0], *given[2:]))


def reads_all(stream: FakeStream) -> None:
    stream.first = 0
    FakeStream._process(stream)


REFUSED = RuntimeError("[INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED] Trigger type ProcessingTime is not supported")
STOPS = {"exception": lambda stream: RuntimeError("Cannot load table version 3") if not stream.ends else None}


@pytest.mark.parametrize(
    ("fault", "before", "seen"),
    [
        ({"start": REFUSED}, [], "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED"),
        ({"_process": lambda _: None}, [], "no batch of a stream ran"),
        ({"awaitTermination": lambda *_: False}, [], "did not end in 1.0 s"),
        ({"_process": reads_all}, ["append", "merge"], "a stream over one new row read 7 rows"),
    ],
)
def test_a_stream_that_does_not_end_or_reads_other_rows_is_a_problem(
    tmp_path: Path, fault: dict[str, Any], before: list[str], seen: str
) -> None:
    answer = answer_of(bench_on(tmp_path, tables_with(**fault)), *before, "stream")
    assert (answer.grade, seen in answer.seen) == ("problem", True), answer


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ({"start": REFUSED}, "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED"),
        (STOPS | {"status": {"message": "Terminated"}}, "Cannot load table version 3"),
        ({"_process": lambda _: None}, "a stream did not read row 1 in 500 ms"),
        ({"status": {"message": "Initializing sources"}}, "a stream did not begin in 500 ms"),
    ],
)
def test_rounds_are_run_where_a_stream_without_end_cannot_be_had(
    tmp_path: Path, fault: dict[str, Any], seen: str
) -> None:
    answer = answer_of(bench_on(tmp_path, tables_with(**fault)), "endless stream")
    assert (answer.grade, seen in answer.seen) == ("note", True), answer
    assert answer.effect == streams.PROBES[-1].otherwise


def test_a_batch_in_another_process_says_where_it_ran(tmp_path: Path) -> None:
    bench = bench_on(tmp_path)
    answer_of(bench, "stream")
    bench.facts = replace(bench.seen_in_batch, pid=1, host="worker", temporary=False)
    assert streams.batch_worker(bench) == "in another process, 1 on host worker"
    assert streams.temporary_folder(bench) == "not that of the run"
    bench.facts = replace(bench.facts, host=socket.gethostname())
    assert streams.batch_worker(bench).startswith("in another process")


@pytest.mark.parametrize("name", ["batch worker", "temporary folder", "spill", "lease"])
def test_nothing_is_known_of_batches_where_no_stream_ran(tmp_path: Path, name: str) -> None:
    answer = answer_of(bench_on(tmp_path), name)
    assert (answer.grade, answer.seen) == ("problem", "no batch of a stream ran, see the probe `stream`")


def test_a_file_of_a_batch_that_spark_does_not_read_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_on(tmp_path)
    monkeypatch.setattr(bench.spark, "parquet", lambda _: FakeRows([]))
    answer = answer_of(bench, "stream", "spill")
    assert (answer.grade, answer.seen) == ("problem", "Spark read 0 of 2 rows")


def test_a_lease_whose_renewals_a_batch_does_not_see_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lease, "renew", lambda _: None)
    answer = answer_of(bench_on(tmp_path), "stream", "lease")
    assert (answer.grade, answer.seen) == ("problem", "a batch did not see the renewals of a lease in 500 ms")


def test_a_lease_whose_renewals_come_too_late_is_a_problem(tmp_path: Path) -> None:
    bench = bench_on(tmp_path)
    answer_of(bench, "stream")
    bench.facts = replace(bench.seen_in_batch, lease=26.0)
    answer = answer_of(bench, "lease")
    assert (answer.grade, answer.seen) == ("problem", "a batch saw a renewal after 26.0 s; a lease lasts 30.0 s")
