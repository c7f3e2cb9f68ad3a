"""Records of topics and channels that are read without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from kaspr_delta import Application
from kaspr_delta.engine.rows.sequence import end_of
from kaspr_delta.engine.streams.arrived import arrived_records
from kaspr_delta.engine.streams.event import records_of
from kaspr_delta.engine.streams.source import Source
from kaspr_delta.plan.definition.resources import ChannelInput, TopicInput
from kaspr_delta.storage.layout import RETRY_FOR
from kaspr_delta.storage.limits import Size
from kaspr_delta.storage.native.delta_rs import DeltaRs
from tests.manifests import manifests

MANY = Size(1_000, 1 << 20)
APP = """
KasprApp/shop: {}
KasprTable/orders: {}
KasprTable/products: {}
KasprJoin/priced: {leftTable: orders, rightTable: products, on: key, type: left, outputChannel: pairs}
KasprAgent/first: {input: {topic: {name: one}}, processors: {pipeline: []}}
KasprAgent/second: {input: {topic: {name: "one,two"}}, processors: {pipeline: []}}
KasprAgent/third: {input: {channel: {name: pairs}}, processors: {pipeline: []}}
KasprAgent/fourth: {input: {channel: {name: pairs, tombstones: true}}, processors: {pipeline: []}}
"""


def opened(folder: Path) -> Application:
    (folder / "shop.yaml").write_text(manifests("shop", APP))
    return Application.open(folder / "shop.yaml", warehouse=folder / "wh")


def source_of(app: Application, agent: str) -> Source:
    plan = app.plan.agent(agent)
    assert plan is not None
    return Source(app.delta, plan.input, app.plan, f"agent/{agent}")


def read(app: Application, agent: str, after: dict[str, int], most: Size = MANY) -> pa.Table | None:
    source = source_of(app, agent)
    newest = {name: end_of(source.newest(app._spark, name)) for name in after}
    return arrived_records(source, after, newest, most)


def found(app: Application, agent: str, after: dict[str, int], most: Size = MANY) -> list[Any]:
    records = read(app, agent, after, most)
    assert records is not None
    return list(records_of(records))


def test_records_come_after_a_position_with_their_headers_and_times(tmp_path: Path) -> None:
    app = opened(tmp_path)
    topic = app.topic("one")
    topic.produce([{"key": "a", "value": 1, "timestamp": 5, "headers": {"by": "me"}}, {"value": None, "timestamp": 6}])
    topic.produce([{"key": "b", "value": 2, "timestamp": 7}])
    app.topic("two").produce([{"key": "c", "value": 3, "timestamp": 8}])
    first, second, third = found(app, "first", {"one": -1})
    assert first[:5] == ("one", b'"a"', b"1", [{"key": "by", "value": b"me"}], 5_000)
    assert (second.key, second.value, second.partition) == (None, None, 0)
    assert found(app, "first", {"one": first.offset}) == [second, third]
    assert found(app, "first", {"one": third.offset}) == []
    assert [one.value for one in found(app, "second", {"one": second.offset, "two": -1})] == [b"3", b"2"]
    assert read(app, "first", {"one": -1}, Size(2, 1 << 20)) is None
    assert read(app, "first", {"one": -1}, Size(10, 1)) is None


def test_a_record_that_a_retry_sent_to_one_reader_is_only_that_readers(tmp_path: Path) -> None:
    app = opened(tmp_path)
    app.topic("one").produce([{"key": "a", "value": 1}])
    layout = app.delta.columns(app._spark, "topic__one")
    row = {column.name: None for column in layout} | {"key": b'"b"', "value": b"2", "partition": 0, "seq": 0}
    marked = [{"key": RETRY_FOR, "value": b"agent/second"}, {"key": "by", "value": b"me"}]
    schema = pa.schema(DeltaRs(app.delta.namespace).open("topic__one").schema().to_arrow())  # type: ignore[arg-type]
    app.delta.append(app._spark, pa.Table.from_pylist([row | {"headers": marked}], schema), "topic__one")
    assert [one.value for one in found(app, "first", {"one": -1})] == [b"1"]
    both = found(app, "second", {"one": -1})
    assert [(one.value, one.headers) for one in both] == [(b"1", None), (b"2", [{"key": "by", "value": b"me"}])]


def test_a_channel_has_pairs_and_tombstones_for_those_that_ask(tmp_path: Path) -> None:
    app = opened(tmp_path)
    app.table("orders").put({"O1": {"name": 'a "quoted" é'}, "O2": 1})
    app.run(only=["join/priced"])
    app.table("orders").put({"O2": None})
    app.run(only=["join/priced"])
    pairs = found(app, "third", {"pairs": -1})
    assert [(one.key, one.value) for one in pairs] == [
        (b'"O1"', '{"left":"{\\"name\\":\\"a \\\\\\"quoted\\\\\\" é\\"}","right":null}'.encode()),
        (b'"O2"', b'{"left":"1","right":null}'),
    ]
    assert [one.value is None for one in found(app, "fourth", {"pairs": -1})] == [False, False, True]
    assert isinstance(source_of(app, "third").read, ChannelInput)
    assert isinstance(source_of(app, "first").read, TopicInput)
