"""The resources and topics on both sides of one, with the numbers of the lines between them."""

from __future__ import annotations

from dataclasses import dataclass

from kaspr_delta.control.figures import Figures
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.web.flows import Flow, flows


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A resource or topic that feeds another one, or is fed by it. ``role``: ``from`` or ``to``."""

    role: str
    label: str
    flow: Flow


def neighbours(plan: Plan, figures: Figures, label: str) -> list[Neighbour]:
    """The neighbours of a resource or topic, those that feed it first."""
    lines = flows(plan, figures, dict.fromkeys(plan.drawn_edges))
    before = [Neighbour("from", edge.source, flow) for edge, flow in lines.items() if edge.target == label]
    after = [Neighbour("to", edge.target, flow) for edge, flow in lines.items() if edge.source == label]
    return [*before, *after]
