"""The start of a checkpoint as stored in the log, and the ids of batches."""

from __future__ import annotations

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


def test_the_newest_checkpoint_is_known_before_the_first_fold() -> None:
    name = "c00000007-f0000000"
    rows = [{"checkpoint": name, "batch": -1, "memo": BatchMetadata().to_json(), "start": Start({}, {}).to_json()}]
    tables: Any = SimpleNamespace(query=lambda *_: rows)
    no_spark: Any = None
    log = Log(tables, "log")
    log.read_end(no_spark, {})
    assert new_checkpoint(log.end.newest_checkpoint).startswith("c00000008-")


def test_a_checkpoint_that_goes_on_has_no_batch_that_makes_the_state_anew() -> None:
    """Dead letters would be made anew by such a batch."""
    no_spark: Any = None
    tables: Any = SimpleNamespace(append=lambda *_: None)
    for goes_on in (False, True):
        log, effects = Log(tables, "log"), LocalRows.none(no_spark)
        first, _ = log.begin(effects, BatchMetadata(), Start({}, {}), goes_on=goes_on)
        assert (first.number == FIRST) is not goes_on
        assert log.end.start_batch == log.end.last == first
