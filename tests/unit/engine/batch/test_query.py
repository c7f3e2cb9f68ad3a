from __future__ import annotations

import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaspr_delta.engine.batch.progress import BatchReport
from kaspr_delta.engine.batch.query import Query
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.namespace import LocalNamespace
from kaspr_delta.storage.opening import open_tables


def test_a_query_travels_to_another_process_without_whoever_listens(tmp_path: Path) -> None:
    told: list[object] = []
    lock = threading.Lock()  # which no process can send to another

    def listen(report: BatchReport) -> None:
        with lock:
            told.append(report)

    resource: Any = SimpleNamespace(log_table="channel__j", ref=ResourceRef("join", "j"))
    query = Query(open_tables(LocalNamespace(tmp_path, "shop", "shop")), resource, listener=listen)
    arrived: Query = pickle.loads(pickle.dumps(query))  # noqa: S301  made here
    assert arrived.listener is None
    assert arrived.resource.ref == query.resource.ref
    assert query.listener is not None


class Panic(BaseException):
    """What nobody who handles exceptions handles."""


def test_a_panic_in_a_batch_is_a_failure_of_its_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object) -> None:
        raise Panic("Already shut down")

    monkeypatch.setattr(Query, "process", panic)
    resource: Any = SimpleNamespace(log_table="channel__j", ref=ResourceRef("join", "j"))
    query = Query(open_tables(LocalNamespace(tmp_path, "shop", "shop")), resource)
    batch: Any = None
    with pytest.raises(RuntimeError, match="Panic: Already shut down") as raised:
        query._process(batch, 0)
    assert query.failure is raised.value
