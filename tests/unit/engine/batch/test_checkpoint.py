"""The start of a checkpoint as stored in the log, and the ids of batches."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from kaspr_delta.engine.batch.checkpoint import FIRST, STATE_FORMAT, BatchId, Start, new_checkpoint
from kaspr_delta.engine.batch.log import BatchMetadata, Log
from kaspr_delta.engine.rows.local_rows import LocalRows


def test_a_start_is_read_back_unchanged() -> None:
    start = Start({"type": "inner"}, {"left": 3, "right": 5})
    assert Start.from_json(start.to_json()) == start
    assert start.format == STATE_FORMAT


def test_unknown_fields_of_a_later_format_are_ignored() -> None:
    assert Start.from_json('{"format": 99, "places": {"left": [3]}}') == Start({}, {}, 99)


def test_the_first_batch_of_a_checkpoint_comes_before_those_of_its_stream() -> None:
    first = BatchId("20260101T000000.000000000-aaaaaaaa")
    assert first < BatchId(first.checkpoint, 0)
    assert first.transaction("log").version == 0  # transaction versions are never negative
    assert BatchId(first.checkpoint, 0).transaction("log").version == 1
    assert first.transaction("log").app_id != first.transaction("dead-letters").app_id
    assert first.transaction("log").app_id != BatchId("c00000001-bbbbbbbb").transaction("log").app_id


def _row(batch: BatchId, start: Start | None = None, **metadata: Any) -> dict[str, Any]:
    text = None if start is None else start.to_json()
    memo = BatchMetadata(**metadata).to_json()
    return {"checkpoint": batch.checkpoint, "batch": batch.number, "memo": memo, "start": text}


class _Asked:
    """Tables of which each question about a log gets the next answer."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)

    def query_each(self, _spark: Any, selects: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
        rows = self.answers.pop(0)
        return dict.fromkeys(selects, rows)


def test_the_newest_checkpoint_is_known_before_the_first_fold() -> None:
    name = "c00000007-f0000000"
    tables: Any = _Asked([_row(BatchId(name), Start({}, {}))])
    no_spark: Any = None
    log = Log(tables, "log")
    log.read_end(no_spark, {})
    assert new_checkpoint(log.end.newest_checkpoint).startswith("c00000008-")


def test_an_old_start_is_asked_for_unless_a_newer_one_is_late() -> None:
    no_spark: Any = None
    begun, last = BatchId("c00000001-f0000000"), BatchId("c00000001-f0000000", 7)
    folded = {last.checkpoint: last.number}
    first, later = Start({}, {"left": 1}), Start({}, {"left": 9})

    tables: Any = _Asked([_row(last, rows_in=1)], [_row(begun, first)])
    log = Log(tables, "log")
    assert log.read_end(no_spark, folded) == []
    assert (log.end.start, log.end.start_batch, log.end.last) == (first, begun, last)
    assert tables.answers == []

    tables = _Asked([_row(last, rows_in=1), _row(last.next, later)])  # a second question would have no answer
    log = Log(tables, "log")
    assert log.read_end(no_spark, folded) == []
    assert (log.end.start, log.end.start_batch) == (later, last.next)

    begun_anew = BatchId("c00000002-f0000000")  # the start of the other checkpoint is not the newest then
    tables = _Asked([_row(last.next, later), _row(begun_anew.next, rows_in=1)], [_row(begun_anew, first)])
    log = Log(tables, "log")
    assert [batch for batch, _ in log.read_end(no_spark, folded)] == [begun_anew.next]
    assert log.end.start_batch == begun_anew


def test_a_checkpoint_that_goes_on_has_no_batch_that_makes_the_state_anew() -> None:
    """Dead letters would be made anew by such a batch."""
    no_spark: Any = None
    tables: Any = SimpleNamespace(append=lambda *_: None)
    for goes_on in (False, True):
        log, effects = Log(tables, "log"), LocalRows.none(no_spark)
        first, _ = log.begin(effects, BatchMetadata(), Start({}, {}), goes_on=goes_on)
        assert (first.number == FIRST) is not goes_on
        assert log.end.start_batch == log.end.last == first
