"""Spark Connect ships a query to a process of its server: two copies then commit to one log."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.log import LogTail, Memo
from kaspr_delta.engine.batch.query import Query
from kaspr_delta.engine.batch.resource import Decision
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables

COMMITTED = LogTail(BatchId("c1", 7), Memo(stream=3, state={"at": "seven"}))


@dataclass
class Clockwork:
    """A resource that notes which state it is asked about, and decides nothing."""

    asked: list[Mapping[str, Any]] = field(default_factory=list)
    ref = ResourceRef("agent", "a")
    log_table = "log__a"
    turn = "agent/a"
    timed = True

    def due(self, spark: object, state: Mapping[str, Any], *, ending: bool) -> Decision | None:  # noqa: ARG002
        self.asked.append(state)
        return None


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    """A query whose log has had seven batches since it was recovered."""
    monkeypatch.setattr("kaspr_delta.engine.batch.query.folded_batches", lambda delta, spark: {})  # noqa: ARG005
    monkeypatch.setattr(Query, "_finish", lambda query, spark, folded: COMMITTED)  # noqa: ARG005
    return Query(open_tables(Warehouse(str(tmp_path)).namespace("shop")), Clockwork())  # type: ignore[arg-type]  # no stream


def asked(query: Query) -> list[Mapping[str, Any]]:
    assert isinstance(query.resource, Clockwork)
    return query.resource.asked


def test_a_query_that_stays_in_its_process_knows_what_it_committed(query: Query) -> None:
    query.tick(None, ending=False)  # type: ignore[arg-type]  # nothing is read
    assert asked(query) == [{}]


def test_once_shipped_both_copies_go_on_from_what_the_log_says(query: Query) -> None:
    shipped: Query = pickle.loads(pickle.dumps(query))  # noqa: S301  our own
    for copy in (query, shipped):
        copy.tick(None, ending=False)  # type: ignore[arg-type]  # nothing is read
        assert asked(copy) == [{"at": "seven"}]
