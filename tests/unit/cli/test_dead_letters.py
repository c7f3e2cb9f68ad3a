from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.delta_rs import DeltaRs, arrow_schema
from kaspr_delta.storage.layout import TOPIC
from kaspr_delta.storage.namespace import Warehouse
from tests.unit.cli.conftest import Kaspr
from tests.unit.runtime.test_dead_letters import AT, VALUE, failed

BUNDLE = Path(__file__).parents[3] / "bundles" / "order-system"


def test_letters_are_retried_without_spark_and_what_cannot_be_is_told(kaspr: Kaspr, tmp_path: Path) -> None:
    apply_manifests(Warehouse(str(tmp_path)), load_path(BUNDLE))
    delta = DeltaRs(Warehouse(str(tmp_path)).namespace("order_system"))
    assert "there are no dead letters" in kaspr("dead-letters", "--retry", "--warehouse", tmp_path).err
    delta.ensure("topic__raw_orders", TOPIC)
    record = {"key": b'"O1"', "value": VALUE, "timestamp": AT, "partition": 0, "seq": 0}
    delta.append("topic__raw_orders", pa.Table.from_pylist([record], arrow_schema(TOPIC.columns)))
    failed(delta)
    failed(delta, key="gone")
    failed(delta, resource="join/orders-products-join", source="orders,products")
    other = kaspr("dead-letters", "--resource", "agent/other", "--retry", "--warehouse", tmp_path)
    assert (other.code, other.out) == (0, "")
    answer = kaspr("dead-letters", "--retry", "--warehouse", tmp_path)
    assert (answer.code, answer.out) == (0, "topic raw-orders: 1 record put there again\n")
    assert "agent/ingest-orders, key gone: its record is gone" in answer.err
    assert "join/orders-products-join: 1 cannot be retried by themselves. It is a row of a table" in answer.err
    assert delta.count("topic__raw_orders") == 2


def test_letters_in_unity_catalog_cannot_be_retried_from_here(kaspr: Kaspr) -> None:
    answer = kaspr("dead-letters", "--retry", "--warehouse", "unity://main.orders/checkpoints")
    assert answer.code == 2
    assert "put the records on their topics with produce" in answer.err
