"""Plans of made tables; acceptance cases hold all their fields."""

from __future__ import annotations

import pytest

from kaspr_delta.plan.definition.joins import StreamPlan
from kaspr_delta.plan.definition.resources import ChannelInput, ResourceRef, Serializers, TopicInput
from kaspr_delta.plan.drawing.picture import Edge
from tests.unit.plan.shop import Manifest, plan

ORDERS: Manifest = ("KasprTable", "orders", "description: Orders")
ROWS: Manifest = ("KasprJoin", "rows", "leftTable: orders\nrightTable: orders\non: key")
RECORDS: Manifest = ("KasprJoin", "records", "leftStream: {topic: raw}\nrightTable: orders\non: key")


def made(spec: str, name: str = "made") -> Manifest:
    return "KasprTable", name, spec


def code(name: str) -> str:
    return f"{{python: '{name} = lambda *values: values'}}"


TOTAL = f"initializer: {code('zero')}, adder: {code('add')}"


@pytest.mark.parametrize(
    ("origin", "operation", "kind", "functions"),
    [
        ("table: orders", f"aggregate: {{{TOTAL}, subtractor: {code('sub')}}}", "aggregate", ["zero", "add", "sub"]),
        ("topic: raw", "toTable: {}", "toTable", []),
        ("topic: raw", "count: {}", "count", []),
        ("topic: raw", f"groupBy: {code('group')}\nreduce: {code('newer')}", "reduce", ["group", "newer"]),
        ("topic: raw", f"aggregate: {{{TOTAL}}}", "aggregate", ["zero", "add"]),
    ],
)
def test_each_aggregation_is_planned_with_its_functions(
    origin: str, operation: str, kind: str, functions: list[str]
) -> None:
    built = plan(ORDERS, made(f"from: {{{origin}}}\n{operation}"))
    (found,) = built.aggregations
    given = (found.group, found.initializer, found.adder, found.subtractor)
    assert (found.kind, [function.entrypoint for function in given if function]) == (kind, functions)
    assert built.runs == (ResourceRef("table", "made"),)
    assert built.aggregation("orders") is None


def test_a_topic_is_an_origin_with_its_serializers_and_partitions() -> None:
    built = plan(made("from: {topic: raw, keySerializer: raw, partitions: 5}\ncount: {}"))
    (found,) = built.aggregations
    read = TopicInput(("raw",), None, Serializers("raw", "json"), "earliest")
    assert found.origin == StreamPlan(read, 5, repartitioned=False)
    assert [(topic.name, topic.partitions) for topic in built.topics] == [("raw", 5)]


RECORDS_OF_JOIN = StreamPlan(ChannelInput("records-channel", "records", tombstones=True, start="earliest"), 3, False)


@pytest.mark.parametrize(
    ("origin", "read", "of"),
    [
        ("join: rows", "rows", "join/rows"),
        ("table: rows", "rows", "join/rows"),
        ("join: records", RECORDS_OF_JOIN, "join/records"),
        ("channel: records-channel", RECORDS_OF_JOIN, "join/records"),
        ("table: orders", "orders", "table/orders"),
    ],
)
def test_a_join_as_origin_is_its_result_table_or_its_channel(origin: str, read: StreamPlan | str, of: str) -> None:
    built = plan(ORDERS, ROWS, RECORDS, made(f"from: {{{origin}}}\ncount: {{}}"))
    (found,) = built.aggregations
    assert (found.origin, built.origin_of(found)) == (read, of)
    assert Edge(of, "table/made") in built.edges


def test_the_channel_of_a_join_of_tables_is_a_stream() -> None:
    built = plan(ORDERS, ROWS, made("from: {channel: rows-channel}\ntoTable: {}"))
    (found,) = built.aggregations
    assert isinstance(found.origin, StreamPlan)
    assert built.origin_of(found) == "join/rows"


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        ("table: nowhere", "table 'nowhere' is not there"),
        ("join: nowhere", "join 'nowhere' is not there"),
        ("channel: nowhere", "no join writes the channel 'nowhere'"),
        ("join: broken", "waits for join/broken"),
    ],
)
def test_a_table_that_waits_for_its_origin_can_still_be_joined(origin: str, reason: str) -> None:
    broken = ("KasprJoin", "broken", "leftTable: nowhere\nrightTable: orders\non: key")
    joined = ("KasprJoin", "joined", "leftTable: made\nrightTable: orders\non: key")
    built = plan(ORDERS, broken, made(f"from: {{{origin}}}\ncount: {{}}"), joined)
    assert built.aggregations == ()
    assert dict(built.waiting)[ResourceRef("table", "made")] == reason
    assert built.table("made") is not None
    assert [one.name for one in built.joins] == ["joined"]


def test_an_agent_that_reads_a_made_table_comes_after_it() -> None:
    reader = """
input: {topic: {name: asked}}
output: {topics: [{name: %s}]}
processors:
  pipeline: [look]
  operations: [{name: look, tables: [{name: made, paramName: made}], map: {python: "look = lambda value, made: value"}}]
"""
    table = made("from: {topic: raw}\ncount: {}")
    built = plan(table, ("KasprAgent", "reader", reader % "answers"))
    assert [str(ref) for ref in built.runs] == ["table/made", "agent/reader"]
    loop = plan(table, ("KasprAgent", "reader", reader % "raw"))
    assert [(len(stage.resources), stage.loop) for stage in loop.stages] == [(2, True)]
