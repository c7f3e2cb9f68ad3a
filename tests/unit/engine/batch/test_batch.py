from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import Timeout

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.log import BatchMetadata, LogEnd
from kaspr_delta.engine.batch.progress import BatchReport
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.namespace import LocalNamespace, Warehouse
from kaspr_delta.storage.opening import open_tables


def test_a_pickled_batch_runner_has_no_listener(tmp_path: Path) -> None:
    lock = threading.Lock()  # cannot be pickled

    def listen(report: BatchReport) -> None:  # noqa: ARG001
        lock.acquire()

    resource: Any = SimpleNamespace(log_table="channel__j", ref=ResourceRef("join", "j"))
    batch = BatchRunner(open_tables(LocalNamespace(tmp_path, "shop", "shop")), resource, listener=listen)
    arrived: BatchRunner = pickle.loads(pickle.dumps(batch))  # noqa: S301  made here
    assert arrived.listener is None
    assert arrived.resource.ref == batch.resource.ref
    assert batch.listener is not None


class Panic(BaseException):
    """An error that is not an ``Exception``, like a panic of delta-rs."""


def test_a_panic_in_a_batch_is_a_failure_of_its_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object) -> None:
        raise Panic("Already shut down")

    monkeypatch.setattr(BatchRunner, "process", panic)
    resource: Any = SimpleNamespace(log_table="channel__j", ref=ResourceRef("join", "j"))
    batch = BatchRunner(open_tables(LocalNamespace(tmp_path, "shop", "shop")), resource)
    rows: Any = None
    with pytest.raises(RuntimeError, match="Panic: Already shut down") as raised:
        batch.run(rows, 0)
    assert batch.failure is raised.value


COMMITTED = LogEnd(BatchId("c1", 7), BatchMetadata(stream=3, state={"at": "seven"}))


@dataclass
class TimedResource:
    """A resource that records the states given to ``due``, and decides nothing or raises ``error``."""

    due_states: list[Mapping[str, Any]] = field(default_factory=list)
    error: Exception | None = None
    ref = ResourceRef("agent", "a")
    log_table = "log__a"
    table_group = "agent/a"
    timed = True

    def due(self, spark: object, state: Mapping[str, Any], *, ending: bool) -> Decision | None:  # noqa: ARG002
        self.due_states.append(state)
        if self.error is not None:
            raise self.error
        return None


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchRunner:
    """A batch runner that has not read its log, which ends with ``COMMITTED``."""
    monkeypatch.setattr("kaspr_delta.engine.batch.batch.folded_batches", lambda delta, spark: {})  # noqa: ARG005
    monkeypatch.setattr(BatchRunner, "fold_unfolded", lambda batch, *_: setattr(batch.log, "end", COMMITTED))
    return BatchRunner(open_tables(Warehouse(str(tmp_path)).namespace("shop")), TimedResource())  # type: ignore[arg-type]


def due_states(batch: BatchRunner) -> list[Mapping[str, Any]]:
    assert isinstance(batch.resource, TimedResource)
    return batch.resource.due_states


def test_a_batch_runner_that_is_not_shipped_does_not_read_its_log(batch: BatchRunner) -> None:
    pickle.dumps(batch)  # changes nothing
    batch.tick(None, ending=False)  # type: ignore[arg-type]  # nothing is read
    assert due_states(batch) == [{}]


def test_both_copies_of_a_shipped_batch_runner_continue_from_the_log(batch: BatchRunner) -> None:
    batch.shipped = True
    shipped: BatchRunner = pickle.loads(pickle.dumps(batch))  # noqa: S301  our own
    for copy in (batch, shipped):
        copy.tick(None, ending=False)  # type: ignore[arg-type]  # nothing is read
        assert due_states(copy) == [{"at": "seven"}]


def test_after_a_failed_batch_no_batch_runs_before_recovery(batch: BatchRunner) -> None:
    """The failed batch may be committed: the next one would have its number, and Delta would skip the commit."""
    timed_resource, rows = batch.resource, SimpleNamespace(sparkSession=None)
    assert isinstance(timed_resource, TimedResource)
    timed_resource.error = OSError("no space left")
    with pytest.raises(OSError, match="no space left"):
        batch.tick(None, ending=False)  # type: ignore[arg-type]  # nothing is read
    timed_resource.error = None
    assert batch.tick(None, ending=False) == 0  # type: ignore[arg-type]
    with pytest.raises(OSError, match="no space left"):
        batch.run(rows, 4)  # type: ignore[arg-type]
    assert due_states(batch) == [{}]
    batch.failure = None  # as recovery does
    batch.tick(None, ending=False)  # type: ignore[arg-type]
    assert due_states(batch) == [{}, {}]


def test_a_batch_that_the_log_has_is_not_run_again(batch: BatchRunner) -> None:
    rows: Any = SimpleNamespace(sparkSession=None)
    batch.log.end = COMMITTED
    batch.process(rows, 3)
    with pytest.raises(AttributeError, match="decide"):  # the next one runs
        batch.process(rows, 4)


def test_a_batch_holds_the_lock_of_its_table_group(batch: BatchRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    lock: Any = batch.delta.namespace.table_group_lock("agent/a")
    tried: list[bool] = []

    def due(*_: object, **__: object) -> None:
        with pytest.raises(Timeout):
            lock.acquire(timeout=0)
        tried.append(True)

    monkeypatch.setattr(TimedResource, "due", due)
    batch.tick(None, ending=False)  # type: ignore[arg-type]  # nothing is read
    assert tried == [True]
