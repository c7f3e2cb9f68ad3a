from __future__ import annotations

import itertools

import pytest

from kaspr_delta.plan.builder.order import definition_cycles, stages
from kaspr_delta.plan.definition.application import Stage
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.drawing.picture import Edge


def edges(text: str) -> list[Edge]:
    """Edges written as ``a -> b -> c``, one chain a line."""
    drawn: list[Edge] = []
    for line in text.strip().splitlines():
        labels = [label.strip() for label in line.split("->")]
        drawn.extend(Edge(source, target) for source, target in itertools.pairwise(labels))
    return drawn


def staged(text: str) -> list[tuple[str, bool]]:
    drawn = edges(text)
    labels = sorted({label for edge in drawn for label in (edge.source, edge.target)})
    # Of tables only made ones run; their names begin with ``made``.
    runs = ("agent/", "join/", "table/made")
    refs = [ResourceRef(*label.split("/")) for label in labels if label.startswith(runs)]
    return [(" ".join(map(str, stage.resources)), stage.loop) for stage in stages(refs, drawn)]


def test_a_stage_needs_only_earlier_ones() -> None:
    chains = """
        topic/raw-orders -> agent/orders -> table/orders -> join/both -> agent/enrich -> topic/out
        topic/raw-products -> agent/products -> table/products -> join/both
    """
    assert staged(chains) == [
        ("agent/orders agent/products", False),
        ("join/both", False),
        ("agent/enrich", False),
    ]


def test_an_agent_that_feeds_its_own_topic_is_a_loop() -> None:
    assert staged("topic/retry -> agent/a -> topic/retry") == [("agent/a", True)]


def test_an_agent_that_writes_the_left_table_of_its_join_is_a_loop_with_it() -> None:
    chains = "topic/in -> agent/first -> table/l -> join/j -> agent/a -> table/l\nagent/a -> topic/out -> agent/last"
    assert staged(chains) == [("agent/first", False), ("agent/a join/j", True), ("agent/last", False)]


def test_made_tables_run_after_their_origins_and_before_their_readers() -> None:
    chains = "topic/in -> table/made-1 -> join/j -> table/made-2 -> agent/a\ntable/t -> join/j"
    assert staged(chains) == [("table/made-1", False), ("join/j", False), ("table/made-2", False), ("agent/a", False)]


def test_an_agent_that_feeds_the_table_it_reads_is_a_loop_with_it() -> None:
    assert staged("topic/x -> table/made -> agent/a -> topic/x") == [("agent/a table/made", True)]


def test_each_loop_is_a_stage_of_its_own() -> None:
    chains = "topic/x -> agent/a -> topic/x\ntopic/y -> agent/b -> topic/y\ntopic/z -> agent/c"
    assert staged(chains) == [("agent/c", False), ("agent/a", True), ("agent/b", True)]


def test_resources_without_edges_run_too() -> None:
    alone = ResourceRef("agent", "alone")
    assert stages([alone], []) == (Stage((alone,)),)


@pytest.mark.parametrize(
    ("chains", "cycles"),
    [
        ("table/a -> join/b -> agent/c -> table/a", 0),
        ("table/a -> join/b -> table/a", 1),
        ("join/a -> join/b -> join/a\ntable/t -> join/a", 1),
        ("table/a -> table/b -> table/a", 1),
        ("table/a -> table/a", 1),
        ("topic/x -> table/a -> join/b -> table/c -> join/b", 1),
        ("topic/x -> table/a -> agent/b -> topic/x", 0),
        ("join/a -> join/b -> join/a\njoin/c -> join/d -> join/c", 2),
        ("join/a -> join/b -> join/c -> join/a\njoin/b -> join/a\njoin/c -> join/b", 1),
    ],
)
def test_cycles_of_definitions_are_found_unless_they_go_through_agents(chains: str, cycles: int) -> None:
    assert len(definition_cycles(edges(chains))) == cycles


def test_of_definitions_that_reach_one_another_a_shortest_circle_is_named() -> None:
    many = "join/a -> join/b -> join/c -> join/d -> join/a\njoin/c -> join/a"
    assert definition_cycles(edges(many)) == (("join/a", "join/b", "join/c"),)
