"""Directed graphs of labels: the labels that are reached from one, and those that reach one another.

Every command makes a plan, and a library of graphs takes as long to import as most of them run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

Graph = Mapping[str, Collection[str]]
"""Each label with those to which its edges lead."""


def graph_of(edges: Iterable[tuple[str, str]], labels: Iterable[str] = ()) -> Graph:
    """The graph of these edges, and of labels that may have none."""
    graph: dict[str, dict[str, None]] = {label: {} for label in labels}
    for source, target in edges:
        graph.setdefault(source, {})[target] = None
        graph.setdefault(target, {})
    return graph


def turned(graph: Graph) -> Graph:
    """The graph with every edge the other way round.

    >>> {label: [*before] for label, before in turned(graph_of([("a", "c"), ("b", "c")])).items()}
    {'a': [], 'c': ['a', 'b'], 'b': []}
    """
    return graph_of(((target, source) for source, targets in graph.items() for target in targets), graph)


def reached(graph: Graph, start: str, without: Collection[str] = ()) -> set[str]:
    """The labels to which edges lead from one, in any number of steps past none of ``without``; and itself.

    >>> sorted(reached(graph_of([("a", "b"), ("b", "c"), ("d", "a")]), "a"))
    ['a', 'b', 'c']
    """
    found, waiting = {start}, [start]
    while waiting:
        new = {label for label in graph[waiting.pop()] if label not in found and label not in without}
        found |= new
        waiting.extend(new)
    return found


def parts_in_order(graph: Graph) -> list[list[str]]:
    """The labels in parts, each sorted and before those that it leads to. The labels of a part reach one another.

    >>> parts_in_order(graph_of([("b", "c"), ("a", "c"), ("c", "b"), ("c", "d")]))
    [['a'], ['b', 'c'], ['d']]
    """
    # Kosaraju's algorithm: the labels in the order in which a walk is done with them, then walks against the edges.
    left: list[str] = []
    seen: set[str] = set()
    walk = [(label, False) for label in graph]
    while walk:
        label, is_left = walk.pop()
        if is_left:
            left.append(label)
        elif label not in seen:
            seen.add(label)
            walk.append((label, True))
            walk.extend((target, False) for target in graph[label])
    before, taken = turned(graph), set[str]()
    parts: list[list[str]] = []
    for label in reversed(left):
        if label not in taken:
            parts.append(sorted(reached(before, label, taken)))
            taken.update(parts[-1])
    return parts
