"""A plan as tables, for a terminal: resources in the order in which they run, their reads and their writes."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.waiting import what_for
from kaspr_delta.plan.explain.flows import flows


def as_table(plan: Plan) -> Group:
    """The resources that run, one row each; below them the tables and the resources that wait."""
    parts: list[Text | Table] = [Text(f"application {plan.application}", "bold"), Text(), _running(plan)]
    if plan.tables:
        parts += [Text(), _tables(plan)]
    if plan.waiting:
        parts += [Text(), _waiting(plan)]
    return Group(*parts)


def _running(plan: Plan) -> Table:
    table = _table("stage", "resource", "reads", "writes")
    waiting = {ref for ref, _ in plan.waiting}
    for number, stage in enumerate(plan.stages, 1):
        for index, ref in enumerate(ref for ref in stage.resources if ref not in waiting):
            shown = f"{number}{' (loop)' if stage.loop else ''}" if index == 0 else ""
            table.add_row(shown, str(ref), *map(", ".join, flows(plan, ref)))
    for task in plan.tasks:
        if task.ref not in waiting:
            table.add_row("clock", str(task.ref), *map(", ".join, flows(plan, task.ref)))
    return table


def _tables(plan: Plan) -> Table:
    table = _table("table", "keys", "values", "changelog")
    for one in plan.tables:
        windows = " (in windows)" if one.window else ""
        table.add_row(f"{one.name}{windows}", one.serializers.key, one.serializers.value, one.changelog)
    return table


def _waiting(plan: Plan) -> Table:
    table = _table("waits", "for")
    for ref, reason in plan.waiting:
        table.add_row(Text(str(ref), "yellow"), what_for(reason))
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")  # a name is never cut
    return table
