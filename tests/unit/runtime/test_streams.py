"""Streams of a run, with fake queries instead of Spark's."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.failures import Failures
from kaspr_delta.runtime.streams import Streams, lag_of
from kaspr_delta.storage.folders import LocalFolder

JOIN = ResourceRef("join", "j")


class StoppedAtGap:
    """A query that Delta stopped, because changes are gone from a table."""

    lastProgress = None  # noqa: N815  as in PySpark

    def awaitTermination(self, timeout: float) -> bool:  # noqa: ARG002, N802  as in PySpark
        raise RuntimeError("FILE_NOT_EXIST")

    def exception(self) -> Exception:
        return RuntimeError("FILE_NOT_EXIST")


def streams(*, fills: bool) -> Streams:
    """The streams of one resource, which has nothing to read after its gap is filled."""
    run = SimpleNamespace(
        recovery=SimpleNamespace(fill_gap=lambda *_: fills),
        start=lambda *_: None,
        resource=SimpleNamespace(fills_gaps=True),
    )
    runs: Any = {JOIN: run}
    made = Streams(cast("Any", None), runs, Failures(runs, lambda _: None), None)
    made.queries[JOIN] = cast("Any", StoppedAtGap())
    return made


def test_a_filled_gap_counts_as_rows_so_that_a_loop_goes_another_round() -> None:
    assert streams(fills=True).await_processed(JOIN, threading.Event()) > 0


def test_a_gap_that_cannot_be_filled_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="FILE_NOT_EXIST"):
        streams(fills=False).await_processed(JOIN, threading.Event())


@dataclass
class Endless:
    """A query that does not end by itself."""

    done: list[str]
    error: Exception | None = None
    isActive: bool = True  # noqa: N815  as in PySpark
    status: Any = field(default_factory=lambda: {"isTriggerActive": False})
    lastProgress = None  # noqa: N815  as in PySpark

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.done.append("query stopped")


@dataclass
class RunOfOne:
    """The run of a resource whose stream does not end. Notes what is done with it."""

    over: bool = False
    done: list[str] = field(default_factory=list)
    resource: Any = field(default_factory=lambda: SimpleNamespace(timed=False))
    recovery: Any = field(default_factory=lambda: SimpleNamespace(follow_sources=lambda _: None))

    @property
    def runner(self) -> RunOfOne:
        return self

    def streams(self, error: Exception | None = None) -> Streams:
        runs: Any = {JOIN: self}
        made = Streams(cast("Any", None), runs, Failures(runs, lambda _: None), 60_000)
        made.queries[JOIN] = cast("Any", Endless(self.done, error))
        return made

    def sources_changed(self, _: Any) -> bool:
        return False

    def is_over(self, _: Any) -> bool:
        return self.over

    def stop(self, _: Any) -> None:
        self.done.append("reading noted")

    def fold_pending(self, _: Any, *, if_due: bool = False) -> None:
        self.done.append("due folds" if if_due else "all folds")

    def start(self, *_: Any) -> Endless:
        self.done.append("next started")
        return Endless(self.done)


@pytest.mark.parametrize(
    ("error", "lost", "done"),
    [
        (None, False, ["query stopped", "all folds", "reading noted"]),
        (RuntimeError("no"), False, ["query stopped", "all folds"]),
        (None, True, ["query stopped"]),
    ],
    ids=["stopped", "failed", "another process runs it"],
)
def test_at_the_end_of_a_continuous_run(error: Exception | None, lost: bool, done: list[str]) -> None:
    run = RunOfOne()
    with run.streams(error) as streams:
        streams.is_lost = lambda: lost
    assert run.done == done


def test_where_streams_must_end_an_endless_one_is_no_failure_of_its_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise PySparkException("[INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED] Trigger type ProcessingTime")

    run = RunOfOne()
    monkeypatch.setattr(run, "start", refuse)
    streams = run.streams()
    streams.start([JOIN])
    assert (streams.must_end, dict(streams.failures.errors)) == (True, {})
    ending: Any = run.streams()
    ending.every = None
    ending.failures = SimpleNamespace(noting=lambda _: pytest.raises(PySparkException))
    ending.start([JOIN])
    assert not ending.must_end


def test_a_stream_that_is_over_is_followed_by_the_next_one_at_a_look_every_interval() -> None:
    run = RunOfOne(over=True)
    streams = run.streams()
    for _ in range(2):
        streams.tick(JOIN)
    assert run.done == ["due folds", "query stopped", "reading noted", "next started", "due folds"]


NEWEST = {LocalFolder(Path("/wh/shop/orders")): 7, LocalFolder(Path("/wh/shop/a b")): 3}
OFFSET = {"reservoirId": "f9874cb4", "reservoirVersion": 6, "index": 0}


def changed_after(folder: LocalFolder, version: int) -> int | None:
    """Rows changed after a version: ten per commit."""
    return None if folder not in NEWEST else 10 * max(NEWEST[folder] - version, 0)


def source(folder: str, version: int, index: int) -> dict[str, Any]:
    offset = {"reservoirId": "f9874cb4", "reservoirVersion": version, "index": index}
    return {"description": f"DeltaSource[file:{folder}]", "endOffset": json.dumps(offset)}


@pytest.mark.parametrize(
    ("sources", "behind"),
    [
        ([source("/wh/shop/orders", 7, 5)], 0),
        ([source("/wh/shop/orders", 8, -1)], 0),  # all is read; version 8 is the next one
        ([source("/wh/shop/orders", 5, -100)], 30),
        ([source("/wh/shop/orders", 6, 0), source("/wh/shop/a%20b", 1, 0)], 30),
        ([{**source("/wh/shop/orders", 6, 0), "endOffset": OFFSET}], 10),
        ([{**source("/wh/shop/orders", 6, 0), "endOffset": str(OFFSET)}], 10),  # as PySpark 4.1 spells it
        ([{**source("/wh/shop/orders", 6, 0), "endOffset": "KafkaOffset(1)"}], None),
        ([source("/elsewhere/orders", 6, 0)], None),
        ([{"description": "DeltaSource[s3://bucket/orders]", "endOffset": "{}"}], None),
        ([source("/wh/shop/orders", 6, 0) | {"endOffset": None}], None),
    ],
)
def test_rows_that_were_not_read_are_counted_over_all_sources(
    monkeypatch: pytest.MonkeyPatch, sources: list[dict[str, Any]], behind: int | None
) -> None:
    monkeypatch.setattr("kaspr_delta.runtime.streams.rows_changed_after", changed_after)
    assert lag_of({"sources": sources}) == behind
