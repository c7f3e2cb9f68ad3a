"""Plans of joins of all shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kaspr_delta.plan.definition.application import Edge, Plan
from kaspr_delta.plan.definition.joins import (
    ForeignKeyJoinPlan,
    JoinPlan,
    RightForeignKeyJoinPlan,
    SameKeyJoinPlan,
    Spelling,
    StreamPlan,
    StreamStreamJoinPlan,
    StreamTableJoinPlan,
)
from kaspr_delta.plan.definition.resources import ChannelInput, ResourceRef, Serializers, TopicInput

Manifest = tuple[str, str, str]
CODE = "{python: 'f = lambda value: value'}"
ORDERS: Manifest = ("KasprTable", "orders", "valueSerializer: raw")
PRODUCTS: Manifest = ("KasprTable", "products", "description: Products")
RAW_KEYS: Manifest = ("KasprTable", "raw-keys", "keySerializer: raw\npartitions: 4")
EVERYWHERE: Manifest = ("KasprTable", "everywhere", "keySerializer: raw\nglobal: true")


def join(name: str, spec: str) -> Manifest:
    return "KasprJoin", name, spec


def first(built: Plan, name: str = "j") -> JoinPlan:
    found = built.join(name)
    assert found is not None
    return found


def test_a_foreign_key_join_is_planned_with_its_subscriptions(plan: Callable[..., Plan]) -> None:
    built = first(plan(ORDERS, RAW_KEYS, join("j", f"leftTable: orders\nrightTable: raw-keys\nextractor: {CODE}")))
    assert isinstance(built, ForeignKeyJoinPlan)
    assert (built.left, built.right, built.type, built.shape) == ("orders", "raw-keys", "inner", "foreign-key")
    assert (built.result, built.subscriptions, built.log) == ("j", "subscriptions__j", "channel__j_channel")
    assert built.spelling == Spelling("json", "raw", "json")


def test_a_same_key_join_is_planned_with_its_type_and_channel(plan: Callable[..., Plan]) -> None:
    spec = "leftTable: orders\nrightTable: products\non: key\ntype: outer\noutputChannel: both"
    built = first(plan(ORDERS, PRODUCTS, join("j", spec)))
    assert isinstance(built, SameKeyJoinPlan)
    assert (built.left, built.right, built.type, built.channel) == ("orders", "products", "outer", "both")
    assert built.spelling == Spelling("json", "raw", "json")


def test_a_stream_table_join_is_planned_with_its_pending_records(plan: Callable[..., Plan]) -> None:
    spec = "leftStream: {topic: a, valueSerializer: raw}\nrightTable: products\non: key\npending: {ttl: 10m}"
    built = plan(PRODUCTS, join("j", spec))
    found = first(built)
    assert isinstance(found, StreamTableJoinPlan)
    read = TopicInput(("a",), None, Serializers("json", "raw"), "earliest")
    assert found.left == StreamPlan(read, 3, repartitioned=False)
    assert (found.right, found.mapper, found.is_global, found.pending) == ("products", None, False, 600_000)
    assert (found.waiting, found.spelling) == ("waiting__j", Spelling("json", "raw", "json"))
    assert [topic.name for topic in built.topics] == ["a"]


@pytest.mark.parametrize(
    ("table", "by", "key"),
    [
        ("raw-keys", f"extractor: {CODE}", "raw"),  # re-keyed: the result has the table's key
        ("everywhere", f"extractor: {CODE}", "json"),  # global table: the result keeps the record's key
        ("raw-keys", f"rightExtractor: {CODE}\ntype: left", "json"),
    ],
)
def test_a_stream_table_result_has_the_records_key_unless_it_is_re_keyed(
    plan: Callable[..., Plan], table: str, by: str, key: str
) -> None:
    built = first(plan(RAW_KEYS, EVERYWHERE, join("j", f"leftStream: {{topic: a}}\nrightTable: {table}\n{by}")))
    assert built.spelling.key == key


def test_a_join_with_the_foreign_key_on_the_right_is_planned_with_its_index(plan: Callable[..., Plan]) -> None:
    spec = f"leftStream: {{topic: a}}\nrightTable: orders\nrightExtractor: {CODE}\ntype: left"
    built = first(plan(ORDERS, join("j", spec)))
    assert isinstance(built, RightForeignKeyJoinPlan)
    assert (built.right, built.index, built.extractor.entrypoint) == ("orders", "index__j", "f")
    assert built.spelling == Spelling("json", "json", "raw")


def test_a_stream_stream_join_is_planned_with_its_window(plan: Callable[..., Plan]) -> None:
    spec = """
leftStream: {topic: a, keySerializer: raw, partitions: 2}
rightStream: {topic: b, keySerializer: raw, partitions: 2}
on: key
type: outer
window: {before: 1m, after: 0s, grace: 250ms}
"""
    built = first(plan(join("j", spec)))
    assert isinstance(built, StreamStreamJoinPlan)
    assert (built.before, built.after, built.grace, built.buffer) == (60_000, 0, 250, "buffer__j")
    assert (built.left.name, built.right.name, built.left.partitions) == ("a", "b", 2)
    assert built.spelling == Spelling("raw", "json", "json")


def test_a_stream_without_serializers_and_partitions_has_the_applications(
    plan: Callable[..., Plan],
) -> None:
    config = "{keySerializer: raw, valueSerializer: raw, topicPartitions: 6}"
    spec = f"rightTable: products\nextractor: {CODE}\nleftStream: "
    built = plan(
        PRODUCTS,
        join("default", spec + "{topic: a}"),
        join("own", spec + "{topic: b, keySerializer: json, valueSerializer: json, partitions: 2}"),
        config=config,
    )
    default, own = (first(built, name).left for name in ("default", "own"))
    assert isinstance(default, StreamPlan)
    assert isinstance(own, StreamPlan)
    assert isinstance(default.input, TopicInput)
    assert isinstance(own.input, TopicInput)
    assert (default.input.serializers, default.partitions) == (Serializers("raw", "raw"), 6)
    assert (own.input.serializers, own.partitions) == (Serializers("json", "json"), 2)
    assert [(topic.name, topic.partitions) for topic in built.topics] == [("a", 6), ("b", 2)]


def test_a_stream_has_the_partitions_that_its_topic_was_declared_with(plan: Callable[..., Plan]) -> None:
    writer = ("KasprAgent", "w", "input: {topic: {name: x}}\noutput: {topics: [{name: a, partitions: 5}]}")
    found = first(
        plan(PRODUCTS, writer, join("j", f"leftStream: {{topic: a}}\nrightTable: products\nextractor: {CODE}"))
    )
    assert isinstance(found, StreamTableJoinPlan)
    assert found.left.partitions == 5


def test_repartitioned_streams_are_read_as_if_they_had_that_many_partitions(plan: Callable[..., Plan]) -> None:
    spec = "leftStream: {topic: a, partitions: 2}\nrightStream: {topic: b}\non: key\nwindow: {before: 1m, after: 1m}"
    found = first(plan(join("j", f"{spec}\nrepartition: {{partitions: 8}}")))
    assert isinstance(found, StreamStreamJoinPlan)
    assert [(side.partitions, side.repartitioned) for side in (found.left, found.right)] == [(8, True), (8, True)]


def test_a_changelog_is_a_stream_with_the_tables_own_serializers_and_partitions(plan: Callable[..., Plan]) -> None:
    spec = f"leftStream: {{topic: shop-app-raw-keys-changelog}}\nrightTable: products\nextractor: {CODE}"
    built = plan(RAW_KEYS, PRODUCTS, join("j", spec))
    found = first(built)
    assert isinstance(found, StreamTableJoinPlan)
    assert isinstance(found.left.input, TopicInput)
    assert (found.left.input.serializers, found.left.partitions) == (Serializers("raw", "json"), 4)
    assert built.topics == ()
    assert Edge("table/raw-keys", "join/j") in built.edges


def test_a_channel_is_read_with_the_keys_of_its_join_and_its_tombstones(plan: Callable[..., Plan]) -> None:
    built = plan(
        RAW_KEYS,
        join("first", f"leftTable: raw-keys\nrightTable: raw-keys\nextractor: {CODE}"),
        join("j", f"leftStream: {{channel: first-channel}}\nrightTable: raw-keys\ntype: left\nrightExtractor: {CODE}"),
    )
    found = first(built)
    assert isinstance(found, RightForeignKeyJoinPlan)
    read = ChannelInput("first-channel", "first", tombstones=True, start="earliest")
    assert found.left == StreamPlan(read, 3, repartitioned=False)
    assert found.spelling == Spelling("raw", "json", "json")
    assert Edge("join/first", "join/j") in built.edges


def test_the_result_of_a_join_of_tables_can_be_joined_like_a_table(plan: Callable[..., Plan]) -> None:
    built = plan(
        RAW_KEYS,
        ORDERS,
        PRODUCTS,
        join("z-first", f"leftTable: raw-keys\nrightTable: products\nextractor: {CODE}"),
        join("a-second", f"leftTable: z-first\nrightTable: orders\nextractor: {CODE}"),
    )
    found = first(built, "a-second")
    assert isinstance(found, ForeignKeyJoinPlan)
    assert (found.left, found.spelling) == ("z-first", Spelling("raw", "json", "raw"))
    assert Edge("join/z-first", "join/a-second") in built.edges
    assert [[str(ref) for ref in stage.resources] for stage in built.stages] == [["join/z-first"], ["join/a-second"]]
    assert built.table_or_result("z-first").serializers == Serializers("raw", "json")


def test_a_join_waits_if_the_join_that_it_reads_waits(plan: Callable[..., Plan]) -> None:
    built = plan(
        PRODUCTS,
        join("z", f"leftTable: nowhere\nrightTable: products\nextractor: {CODE}"),
        join("a-table", f"leftTable: z\nrightTable: products\nextractor: {CODE}"),
        join("a-stream", "leftStream: {channel: a-table-channel}\nrightTable: products\non: key"),
    )
    assert built.joins == ()
    assert dict(built.waiting) == {
        ResourceRef("join", "a-stream"): "waits for join/z",
        ResourceRef("join", "a-table"): "waits for join/z",
        ResourceRef("join", "z"): "table 'nowhere' is not there",
    }


def test_a_join_waits_for_a_missing_channel_but_not_for_a_topic(plan: Callable[..., Plan]) -> None:
    by = f"rightTable: products\nextractor: {CODE}"
    built = plan(
        PRODUCTS,
        join("channel", f"leftStream: {{channel: nothing}}\n{by}"),
        join("topic", f"leftStream: {{topic: nothing}}\n{by}"),
    )
    assert [one.name for one in built.joins] == ["topic"]
    assert dict(built.waiting) == {ResourceRef("join", "channel"): "no join writes the channel 'nothing'"}
