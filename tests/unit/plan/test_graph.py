"""Parts and reached labels are those that networkx finds."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.plan.graph import graph_of, parts_in_order, reached, turned

_LABELS = "abcdefgh"
EDGES = st.lists(st.tuples(st.sampled_from(_LABELS), st.sampled_from(_LABELS)), max_size=20)


def _known(edges: list[tuple[str, str]]) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph(edges)
    graph.add_nodes_from(_LABELS)
    return graph


@given(EDGES)
def test_labels_that_reach_one_another_are_a_part_and_parts_lead_to_later_ones(edges: list[tuple[str, str]]) -> None:
    graph = graph_of(edges, _LABELS)
    parts = parts_in_order(graph)
    expected = nx.strongly_connected_components(_known(edges))
    assert sorted(parts) == sorted(sorted(part) for part in expected)
    at = {label: number for number, part in enumerate(parts) for label in part}
    assert all(at[source] <= at[target] for source, target in edges)


@given(EDGES, st.sampled_from(_LABELS), st.sets(st.sampled_from(_LABELS), max_size=3))
def test_a_label_reaches_those_to_which_edges_lead_past_none_that_is_left_out(
    edges: list[tuple[str, str]], start: str, without: set[str]
) -> None:
    graph = graph_of(edges, _LABELS)
    kept = _known(edges)
    kept.remove_nodes_from(without - {start})
    assert reached(graph, start, without) == {start, *nx.descendants(kept, start)}
    assert reached(turned(graph), start) == {start, *nx.ancestors(_known(edges), start)}


def test_a_long_chain_is_walked_without_recursion() -> None:
    chain = [(f"{number:05}", f"{number + 1:05}") for number in range(5_000)]
    assert parts_in_order(graph_of(reversed(chain))) == [[f"{number:05}"] for number in range(5_001)]
