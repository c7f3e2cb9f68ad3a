"""Plans as a picture: a Mermaid flowchart, which GitHub and notebooks draw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ChannelInput
from kaspr_delta.plan.definition.waiting import in_words
from kaspr_delta.plan.drawing.picture import Edge

# Topics are parallelograms, tables cylinders, joins hexagons, agents boxes, tasks rounded boxes, web views flags.
_SHAPES = {
    "topic": '[/"{}"/]',
    "table": '[("{}")]',
    "join": '{{{{"{}"}}}}',
    "agent": '["{}"]',
    "task": '("{}")',
    "webview": '>"{}"]',
}


def as_mermaid(plans: Iterable[Plan]) -> str:
    """One flowchart of all applications. Several applications have a box each."""
    drawn = list(plans)
    lines = ["flowchart LR"]
    for number, plan in enumerate(drawn, 1):
        if len(drawn) > 1:
            lines.append(f'  subgraph app{number}["{_text(plan.application)}"]')
        lines.extend(_nodes_and_edges(plan, f"app{number}_" if len(drawn) > 1 else ""))
        if len(drawn) > 1:
            lines.append("  end")
    if any(plan.waiting for plan in drawn):
        lines.append("  classDef waiting stroke-dasharray: 4 4")
    return "\n".join(lines)


def _nodes_and_edges(plan: Plan, prefix: str) -> Iterator[str]:
    for topic in plan.topics:
        yield f"  {_node(str(topic.ref), prefix, f' {topic.binding.text}' if topic.binding else '')}"
    waiting = dict(plan.waiting)
    for one in (*plan.tables, *plan.joins, *plan.agents):
        if one.ref not in waiting:  # a table that waits for its origin has a plan too: it is drawn below
            yield f"  {_node(str(one.ref), prefix)}"
    for resource, reason in plan.waiting:
        yield f"  {_node(str(resource), prefix, f' {in_words(reason)}')}:::waiting"
    channels = {str(join.ref): join.channel for join in plan.joins}
    tables = set(_read_as_tables(plan))
    for edge in plan.edges:
        named = edge.source in channels and edge not in tables
        arrow = f'-- "{_text(channels[edge.source])}" -->' if named else "-->"
        yield f"  {_identifier(edge.source, prefix)} {arrow} {_identifier(edge.target, prefix)}"


def _read_as_tables(plan: Plan) -> Iterator[Edge]:
    """The edges along which the result table of a join is read, not its channel."""
    for join in plan.joins:
        yield from (Edge(f"join/{side}", str(join.ref)) for side in (join.left, join.right) if isinstance(side, str))
    for made in plan.aggregations:
        if isinstance(made.origin, str):
            yield Edge(plan.origin_of(made), str(made.ref))
    for agent in plan.agents:
        followed = agent.input.join if isinstance(agent.input, ChannelInput) else None
        yield from (Edge(plan.label_of(name), str(agent.ref)) for name in agent.tables if name != followed)


def _node(label: str, prefix: str, addition: str = "") -> str:
    kind, _, name = label.partition("/")
    return _identifier(label, prefix) + _SHAPES[kind].format(_text(name + addition))


def _identifier(label: str, prefix: str) -> str:
    return prefix + re.sub(
        r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_" if match[0] not in "-/" else "_", label
    )


def _text(text: str) -> str:
    return text.replace('"', "#quot;")
