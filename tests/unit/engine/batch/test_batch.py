from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from filelock import Timeout

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.decision import Decision
from kaspr_delta.engine.batch.log import BatchMetadata, LogEnd
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables

COMMITTED = LogEnd(BatchId("c1", 7), BatchMetadata(stream=3, state={"at": "seven"}))


NO_SPARK: Any = None  # nothing is read
ROWS: Any = SimpleNamespace(sparkSession=None)


class Panic(BaseException):
    """An error that is not an ``Exception``, like a panic of delta-rs."""


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
    resource: Any = TimedResource()
    return BatchRunner(open_tables(Warehouse(str(tmp_path)).namespace("shop")), resource)


def due_states(batch: BatchRunner) -> list[Mapping[str, Any]]:
    resource: Any = batch.resource
    states: list[Mapping[str, Any]] = resource.due_states
    return states


def shipped(batch: BatchRunner) -> BatchRunner:
    copy: BatchRunner = pickle.loads(pickle.dumps(batch))  # noqa: S301  our own
    return copy


def test_a_pickled_batch_runner_has_no_listener(batch: BatchRunner) -> None:
    lock = threading.Lock()  # cannot be pickled
    batch.listener = lambda *_: lock.release()
    assert shipped(batch).listener is None
    assert batch.listener is not None


def test_a_panic_in_a_batch_is_a_failure_of_its_resource(batch: BatchRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchRunner, "process", Mock(side_effect=Panic("Already shut down")))
    with pytest.raises(RuntimeError, match="Panic: Already shut down") as raised:
        batch.run(ROWS, 0)
    assert batch.failure is raised.value


def test_a_batch_runner_that_is_not_shipped_does_not_read_its_log(batch: BatchRunner) -> None:
    shipped(batch)  # changes nothing
    batch.tick(NO_SPARK, ending=False)
    assert due_states(batch) == [{}]


def test_both_copies_of_a_shipped_batch_runner_continue_from_the_log(batch: BatchRunner) -> None:
    batch.shipped = True
    for copy in (batch, shipped(batch)):
        copy.tick(NO_SPARK, ending=False)
        assert due_states(copy)[-1] == {"at": "seven"}


def test_after_a_failed_batch_no_batch_runs_before_recovery(batch: BatchRunner) -> None:
    """The failed batch may be committed: the next one would have its number, and Delta would skip the commit."""
    timed_resource: Any = batch.resource
    timed_resource.error = OSError("no space left")
    with pytest.raises(OSError, match="no space left"):
        batch.tick(NO_SPARK, ending=False)
    timed_resource.error = None
    assert batch.tick(NO_SPARK, ending=False) == 0
    with pytest.raises(OSError, match="no space left"):
        batch.run(ROWS, 4)
    assert due_states(batch) == [{}]
    batch.failure = None  # as recovery does
    batch.tick(NO_SPARK, ending=False)
    assert due_states(batch) == [{}, {}]


def test_a_batch_that_the_log_has_is_not_run_again(batch: BatchRunner) -> None:
    batch.log.end = COMMITTED
    batch.process(ROWS, 3)
    with pytest.raises(AttributeError, match="decide"):  # the next one runs
        batch.process(ROWS, 4)


def test_a_batch_holds_the_lock_of_its_table_group(batch: BatchRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    lock: Any = batch.delta.namespace.table_group_lock("agent/a")
    due = Mock(side_effect=lambda *_, **__: lock.acquire(timeout=0))
    monkeypatch.setattr(TimedResource, "due", due)
    with pytest.raises(Timeout):
        batch.tick(NO_SPARK, ending=False)
    due.assert_called_once()
