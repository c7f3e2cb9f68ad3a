"""Plans of made tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kaspr_delta.plan.definition.application import Edge, Plan, Stage
from kaspr_delta.plan.definition.joins import StreamPlan
from kaspr_delta.plan.definition.resources import ChannelInput, ResourceRef, Serializers, TopicInput

Manifest = tuple[str, str, str]
ORDERS: Manifest = ("KasprTable", "orders", "description: Orders")
ROWS: Manifest = ("KasprJoin", "rows", "leftTable: orders\nrightTable: orders\non: key")
RECORDS: Manifest = ("KasprJoin", "records", "leftStream: {topic: raw}\nrightTable: orders\non: key")


def made(spec: str, name: str = "made") -> Manifest:
    return "KasprTable", name, spec


def code(name: str) -> str:
    return f"{{python: '{name} = lambda *values: values'}}"


def test_a_table_without_from_has_no_aggregation(plan: Callable[..., Plan]) -> None:
    built = plan(ORDERS)
    assert built.aggregations == ()
    assert built.aggregation("orders") is None


def test_an_aggregate_over_a_table_is_planned_with_all_its_functions(plan: Callable[..., Plan]) -> None:
    spec = f"""
from: {{table: orders}}
groupBy: {code("group")}
aggregate: {{initializer: {code("zero")}, adder: {code("add")}, subtractor: {code("sub")}}}
"""
    built = plan(ORDERS, made(spec))
    found = built.aggregation("made")
    assert found is not None
    assert (found.kind, found.origin, found.ref) == ("aggregate", "orders", ResourceRef("table", "made"))
    functions = (found.group, found.initializer, found.adder, found.subtractor)
    assert [function.entrypoint for function in functions if function] == ["group", "zero", "add", "sub"]
    assert (found.log, found.contributions) == ("aggregation__made", "contributions__made")
    assert built.origin_of(found) == "table/orders"
    assert built.stages == (Stage((found.ref,)),)
    assert built.runs == (found.ref,)
    assert Edge("table/orders", "table/made") in built.edges


@pytest.mark.parametrize(
    ("operation", "kind", "adder"),
    [
        ("toTable: {}", "toTable", None),
        ("count: {}", "count", None),
        (f"reduce: {code('newer')}", "reduce", "newer"),
        (f"aggregate: {{initializer: {code('zero')}, adder: {code('add')}}}", "aggregate", "add"),
    ],
)
def test_each_aggregation_of_a_stream_is_planned_with_its_function(
    plan: Callable[..., Plan], operation: str, kind: str, adder: str | None
) -> None:
    (found,) = plan(made(f"from: {{topic: raw}}\n{operation}")).aggregations
    assert (found.kind, found.adder.entrypoint if found.adder else None) == (kind, adder)
    assert (found.group, found.subtractor) == (None, None)


def test_a_topic_is_an_origin_with_its_serializers_and_partitions(plan: Callable[..., Plan]) -> None:
    built = plan(made("from: {topic: raw, keySerializer: raw, partitions: 5}\ncount: {}"))
    (found,) = built.aggregations
    read = TopicInput(("raw",), None, Serializers("raw", "json"), "earliest")
    assert found.origin == StreamPlan(read, 5, repartitioned=False)
    assert [(topic.name, topic.partitions) for topic in built.topics] == [("raw", 5)]
    assert built.origin_of(found) == "topic/raw"


def test_a_join_as_origin_is_its_result_table_or_its_channel(plan: Callable[..., Plan]) -> None:
    names = {"of-rows": "rows", "of-records": "records"}
    built = plan(
        ORDERS, ROWS, RECORDS, *(made(f"from: {{join: {of}}}\ncount: {{}}", name) for name, of in names.items())
    )
    of_records, of_rows = built.aggregations
    channel = ChannelInput("records-channel", "records", tombstones=True, start="earliest")
    assert of_records.origin == StreamPlan(channel, 3, repartitioned=False)
    assert of_rows.origin == "rows"
    assert [built.origin_of(one) for one in built.aggregations] == ["join/records", "join/rows"]
    assert {Edge("join/records", "table/of-records"), Edge("join/rows", "table/of-rows")} <= set(built.edges)


def test_the_result_table_of_a_join_may_be_named_as_a_table(plan: Callable[..., Plan]) -> None:
    built = plan(ORDERS, ROWS, made("from: {table: rows}\ncount: {}"))
    assert [one.origin for one in built.aggregations] == ["rows"]
    assert Edge("join/rows", "table/made") in built.edges


def test_the_channel_of_a_join_of_tables_is_a_stream(plan: Callable[..., Plan]) -> None:
    (found,) = plan(ORDERS, ROWS, made("from: {channel: rows-channel}\ntoTable: {}")).aggregations
    assert isinstance(found.origin, StreamPlan)
    assert found.origin.label == "join/rows"


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        ("table: nowhere", "table 'nowhere' is not there"),
        ("join: nowhere", "join 'nowhere' is not there"),
        ("channel: nowhere", "no join writes the channel 'nowhere'"),
        ("join: broken", "waits for join/broken"),
    ],
)
def test_a_table_that_waits_for_its_origin_can_still_be_joined(
    plan: Callable[..., Plan], origin: str, reason: str
) -> None:
    broken = ("KasprJoin", "broken", "leftTable: nowhere\nrightTable: orders\non: key")
    joined = ("KasprJoin", "joined", "leftTable: made\nrightTable: orders\non: key")
    built = plan(ORDERS, broken, made(f"from: {{{origin}}}\ncount: {{}}"), joined)
    assert built.aggregations == ()
    assert dict(built.waiting)[ResourceRef("table", "made")] == reason
    assert built.table("made") is not None
    assert [one.name for one in built.joins] == ["joined"]


def test_made_tables_run_after_their_origins(plan: Callable[..., Plan]) -> None:
    built = plan(
        made("from: {table: b}\ncount: {}", "a"),
        made("from: {table: c}\ncount: {}", "b"),
        made("from: {topic: raw}\ncount: {}", "c"),
    )
    assert [str(ref) for ref in built.runs] == ["table/c", "table/b", "table/a"]


def test_an_agent_that_reads_a_made_table_comes_after_it(plan: Callable[..., Plan]) -> None:
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
