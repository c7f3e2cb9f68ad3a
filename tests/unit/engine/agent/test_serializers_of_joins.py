"""The key serializers of topic and table with which a join finds its rows."""

from __future__ import annotations

from math import inf

import pyarrow as pa
import pytest

from kaspr_delta.engine.agent.table_state import TableState
from kaspr_delta.engine.joins.foreign_key.extract import ExtractForeignKeys
from kaspr_delta.engine.streams.event import TopicDecoder
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.plan.definition.resources import SerializerName, Serializers
from kaspr_delta.serde.table_text import TableText
from tests.unit.engine.agent.agents import FakeReader, code, executor, mapped, record, table_plan

TEXT = "def f(order): return order['product_id']"
BYTES = "def f(order): return order['product_id'].encode()"


@pytest.mark.parametrize(
    ("topic", "table", "on_the_topic", "extractor", "joins"),
    [
        ("json", "json", b'"P100"', TEXT, True),
        ("raw", "json", b'"P100"', TEXT, False),  # encoded twice
        ("raw", "raw", b"P100", BYTES, True),
        ("json", "raw", b'"P100"', TEXT, False),  # text where bytes are wanted
    ],
)
def test_s0_11_a_join_finds_rows_written_with_the_tables_key_serializer(
    topic: SerializerName, table: SerializerName, on_the_topic: bytes, extractor: str, joins: bool
) -> None:
    products = table_plan("products", serializers=Serializers(table, "json"))
    state = TableState(products, FakeReader())
    ingest = executor(mapped("def f(v, products): products[context['event'].key] = v", ["products"]), tables=[state])
    ingest.decoder = TopicDecoder(Serializers(topic, "json"))
    assert [effect.kind for effect in ingest.process(record({"name": "Widget"})._replace(key=on_the_topic))] == ["send"]
    orders = TableText(Serializers(table, "json"))
    selector = Selector(code(extractor), TableText(products.serializers), "extractor", "foreign key", inf)
    left = {"key": orders.key("O1"), "left": '{"product_id":"P100"}', "left_hash": "h"}
    (extracted,) = ExtractForeignKeys(selector, orders)([pa.RecordBatch.from_pylist([left])])
    assert (extracted["fk"][0].as_py() in state.written) is joins
