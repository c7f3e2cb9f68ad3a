"""Plans of joins: where keys, serializers and partitions come from, and what a join waits for.

Acceptance cases hold all fields of the plans of all shapes.
"""

from __future__ import annotations

import pytest

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan, RightForeignKeyJoinPlan, Spelling, StreamPlan
from kaspr_delta.plan.definition.resources import ChannelInput, Serializers, TopicInput
from kaspr_delta.plan.drawing.picture import Edge
from tests.unit.plan.shop import CODE, Manifest, plan

ORDERS: Manifest = ("KasprTable", "orders", "valueSerializer: raw")
PRODUCTS: Manifest = ("KasprTable", "products", "description: Products")
RAW_KEYS: Manifest = ("KasprTable", "raw-keys", "keySerializer: raw\npartitions: 4")
EVERYWHERE: Manifest = ("KasprTable", "everywhere", "keySerializer: raw\nglobal: true")
BY_PRODUCT = f"rightTable: products\nextractor: {CODE}"


def join(name: str, spec: str) -> Manifest:
    return "KasprJoin", name, spec


def found(built: Plan, name: str = "j") -> JoinPlan:
    join = built.join(name)
    assert join is not None
    return join


def left(built: Plan, name: str = "j") -> StreamPlan:
    stream = found(built, name).left
    assert isinstance(stream, StreamPlan)
    return stream


def read(stream: StreamPlan) -> tuple[Serializers, int]:
    assert isinstance(stream.input, TopicInput)
    return stream.input.serializers, stream.partitions


@pytest.mark.parametrize(
    ("spec", "spelling"),
    [
        (f"leftTable: orders\nrightTable: raw-keys\nextractor: {CODE}", Spelling("json", "raw", "json")),
        ("leftTable: orders\nrightTable: products\non: key", Spelling("json", "raw", "json")),
        # Re-keyed: the result has the table's key.
        (f"leftStream: {{topic: a}}\nrightTable: raw-keys\nextractor: {CODE}", Spelling("raw", "json", "json")),
        # With a global table the result keeps the record's key.
        (f"leftStream: {{topic: a}}\nrightTable: everywhere\nextractor: {CODE}", Spelling("json", "json", "json")),
        (
            f"leftStream: {{topic: a, valueSerializer: raw}}\nrightTable: raw-keys\nrightExtractor: {CODE}\ntype: left",
            Spelling("json", "raw", "json"),
        ),
    ],
)
def test_a_result_is_spelled_as_its_sides_unless_it_is_re_keyed(spec: str, spelling: Spelling) -> None:
    assert found(plan(ORDERS, PRODUCTS, RAW_KEYS, EVERYWHERE, join("j", spec))).spelling == spelling


def test_a_stream_without_serializers_and_partitions_has_the_applications() -> None:
    built = plan(
        PRODUCTS,
        join("default", f"leftStream: {{topic: a}}\n{BY_PRODUCT}"),
        join(
            "own", f"leftStream: {{topic: b, keySerializer: json, valueSerializer: json, partitions: 2}}\n{BY_PRODUCT}"
        ),
        app="config: {keySerializer: raw, valueSerializer: raw, topicPartitions: 6}",
    )
    assert read(left(built, "default")) == (Serializers("raw", "raw"), 6)
    assert read(left(built, "own")) == (Serializers("json", "json"), 2)
    assert [(topic.name, topic.partitions) for topic in built.topics] == [("a", 6), ("b", 2)]


def test_a_stream_has_the_partitions_that_its_topic_was_declared_with() -> None:
    writer = ("KasprAgent", "w", "input: {topic: {name: x}}\noutput: {topics: [{name: a, partitions: 5}]}")
    assert left(plan(PRODUCTS, writer, join("j", f"leftStream: {{topic: a}}\n{BY_PRODUCT}"))).partitions == 5


def test_a_changelog_is_a_stream_with_the_tables_own_serializers_and_partitions() -> None:
    built = plan(RAW_KEYS, PRODUCTS, join("j", f"leftStream: {{topic: shop-app-raw-keys-changelog}}\n{BY_PRODUCT}"))
    assert read(left(built)) == (Serializers("raw", "json"), 4)
    assert built.topics == ()
    assert Edge("table/raw-keys", "join/j") in built.edges


def test_a_channel_is_read_with_the_keys_of_its_join_and_its_tombstones() -> None:
    built = plan(
        RAW_KEYS,
        join("first", f"leftTable: raw-keys\nrightTable: raw-keys\nextractor: {CODE}"),
        join("j", f"leftStream: {{channel: first-channel}}\nrightTable: raw-keys\ntype: left\nrightExtractor: {CODE}"),
    )
    assert isinstance(found(built), RightForeignKeyJoinPlan)
    channel = ChannelInput("first-channel", "first", tombstones=True, start="earliest")
    assert left(built) == StreamPlan(channel, 3, repartitioned=False)
    assert found(built).spelling == Spelling("raw", "json", "json")
    assert Edge("join/first", "join/j") in built.edges


def test_the_result_of_a_join_of_tables_can_be_joined_like_a_table() -> None:
    built = plan(
        RAW_KEYS,
        ORDERS,
        PRODUCTS,
        join("z-first", f"leftTable: raw-keys\n{BY_PRODUCT}"),
        join("a-second", f"leftTable: z-first\nrightTable: orders\nextractor: {CODE}"),
    )
    assert found(built, "a-second").spelling == Spelling("raw", "json", "raw")
    assert [[str(ref) for ref in stage.resources] for stage in built.stages] == [["join/z-first"], ["join/a-second"]]
    assert built.table_or_result("z-first").serializers == Serializers("raw", "json")


def test_a_join_waits_for_what_it_reads_and_for_what_that_waits_for_but_not_for_a_topic() -> None:
    built = plan(
        PRODUCTS,
        join("z", f"leftTable: nowhere\n{BY_PRODUCT}"),
        join("a-table", f"leftTable: z\n{BY_PRODUCT}"),
        join("a-stream", "leftStream: {channel: a-table-channel}\nrightTable: products\non: key"),
        join("channel", f"leftStream: {{channel: nothing}}\n{BY_PRODUCT}"),
        join("topic", f"leftStream: {{topic: nothing}}\n{BY_PRODUCT}"),
    )
    assert [one.name for one in built.joins] == ["topic"]
    assert {str(ref): reason for ref, reason in built.waiting} == {
        "join/a-stream": "waits for join/z",
        "join/a-table": "waits for join/z",
        "join/channel": "no join writes the channel 'nothing'",
        "join/z": "table 'nowhere' is not there",
    }
