"""The lag of a resource, from checkpoints as Spark writes them. tests/spark/test_web.py has Spark's own."""

from __future__ import annotations

import json

import pytest

from kaspr_delta.control.lag import lags_of
from kaspr_delta.engine.batch.sources import NOTHING, SourceTable
from kaspr_delta.engine.rows.sequence import end_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.serde.json_text import canonical_key
from kaspr_delta.storage.layout import TOPIC, table_layout
from kaspr_delta.storage.native.delta_rs import DeltaRs
from tests.folders import append_rows, path_of
from tests.manifests import plan_of_bundle

INGEST, JOIN = ResourceRef("agent", "ingest-orders"), ResourceRef("join", "orders-products-join")


@pytest.fixture
def plan() -> Plan:
    return plan_of_bundle("order-system")


def produce(delta: DeltaRs, count: int) -> None:
    records = [{"key": b"k", "value": b"v", "seq": number} for number in range(count)]
    append_rows(delta, "topic__raw_orders", TOPIC, *records)


def put(delta: DeltaRs, plan: Plan, table: str, count: int) -> None:
    rows = [{"key": canonical_key(number), "value": "1"} for number in range(count)]
    append_rows(delta, table, table_layout(plan.known_table(table)), *rows)


def checkpoint(delta: DeltaRs, ref: ResourceRef, name: str, *offsets: dict[str, object]) -> None:
    """Write a checkpoint as Spark does: the offsets of a batch, and its commit."""
    folder = path_of(delta.namespace.checkpoints / f"{ref.kind}-{ref.name}" / name)
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True)
    (folder / "offsets" / "3").write_text("\n".join(["v1", "{}", *map(json.dumps, offsets)]))
    (folder / "commits" / "3").write_text("v1\n{}")


def offset(delta: DeltaRs, table: str, version: int, index: int = -1) -> dict[str, object]:
    return {"reservoirId": delta.table_id(table), "reservoirVersion": version, "index": index}


def lag_of(delta: DeltaRs, plan: Plan, ref: ResourceRef) -> int:
    lags = lags_of(delta, plan, ref)
    assert not isinstance(lags, str), lags
    return sum(lags.values())


def test_the_lag_of_a_resource_that_never_ran_is_its_whole_input(delta: DeltaRs, plan: Plan) -> None:
    assert lag_of(delta, plan, INGEST) == 0
    produce(delta, 3)
    put(delta, plan, "orders", 2)
    assert lag_of(delta, plan, INGEST) == 3
    assert lag_of(delta, plan, JOIN) == 2


def test_the_lag_counts_rows_after_the_offsets_of_the_last_batch(delta: DeltaRs, plan: Plan) -> None:
    for count in (3, 4, 5):
        produce(delta, count)
    checkpoint(delta, INGEST, "1", offset(delta, "topic__raw_orders", 1))
    assert lag_of(delta, plan, INGEST) == 12
    checkpoint(delta, INGEST, "2", offset(delta, "topic__raw_orders", 2, index=0))
    assert lag_of(delta, plan, INGEST) == 5
    checkpoint(delta, INGEST, "3", offset(delta, "topic__raw_orders", 4))
    path_of(delta.namespace.checkpoints / "agent-ingest-orders/4/commits").mkdir(parents=True)  # no batch has ended
    assert lag_of(delta, plan, INGEST) == 0


def test_the_lag_of_a_join_depends_on_the_offsets_of_both_sides(delta: DeltaRs, plan: Plan) -> None:
    for table, count in (("orders", 2), ("products", 3)):
        put(delta, plan, table, count)
        put(delta, plan, table, 10 * count)
    checkpoint(delta, JOIN, "1", offset(delta, "orders", 2), offset(delta, "products", 3))
    assert lag_of(delta, plan, JOIN) == 20


def test_the_commit_at_which_a_checkpoint_began_is_read() -> None:
    assert SourceTable("orders").first_unread(4) == 5


@pytest.mark.parametrize(("position", "unread"), [(NOTHING, 0), (0, 1), (end_of(4) - 1, 5), (end_of(4), 5)])
def test_a_commit_counts_as_read_once_a_record_of_it_was_read(position: int, unread: int) -> None:
    assert SourceTable("topic__orders", by_offset=True).first_unread(position) == unread
