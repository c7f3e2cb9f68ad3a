"""Delta names are shorter than Kaspr's alphabet: two resources that would share one are refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kaspr_delta.plan.applications import Application, channel_of
from kaspr_delta.plan.names import (
    channel_table,
    delta_name,
    log_table,
    subscriptions_table,
    task_table,
    topic_table,
    value_view,
    windows_table,
)
from kaspr_delta.plan.report import Report
from kaspr_delta.spec.diagnostics import Location

SYSTEM_PREFIX = "_kaspr"
"""What the names of the system's own tables begin with."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that wants a Delta name."""

    delta_name: str
    owner: str
    location: Location


def claims(application: Application, topics: Iterable[tuple[str, Location]]) -> Iterator[Claim]:
    """Everything in the application's schema, resources that wait included."""
    for table in application.tables.values():
        at = table.source.locate_value("metadata", "name")
        yield Claim(delta_name(table.name), f"table '{table.name}'", at)
        yield Claim(value_view(table.name), f"the view of table '{table.name}'", at)
        if table.spec.window and table.spec.window.emit == "close":
            yield Claim(windows_table(table.name), f"the open windows of table '{table.name}'", at)
    for join in application.joins.values():
        at = join.source.locate_value("metadata", "name")
        yield Claim(delta_name(join.name), f"the result of join '{join.name}'", at)
        yield Claim(value_view(join.name), f"the view of join '{join.name}'", at)
        yield Claim(subscriptions_table(join.name), f"the subscriptions of join '{join.name}'", at)
        channel = channel_of(join)
        at = join.source.locate_value("spec", "outputChannel") if join.spec.output_channel else at
        yield Claim(channel_table(channel), f"channel '{channel}'", at)
    for agent in application.agents.values():
        at = agent.source.locate_value("metadata", "name")
        yield Claim(log_table(agent.name), f"the log of agent '{agent.name}'", at)
    for task in application.tasks.values():
        at = task.source.locate_value("metadata", "name")
        yield Claim(task_table(task.name), f"the log of task '{task.name}'", at)
    for topic, location in topics:
        yield Claim(topic_table(topic), f"topic '{topic}'", location)


def refuse_clashes(claimed: Iterable[Claim], report: Report) -> None:
    """Report every claim for a name that is taken or the system's."""
    owners: dict[str, Claim] = {}
    told: set[tuple[Location, Location]] = set()
    for claim in claimed:
        first = owners.setdefault(claim.delta_name, claim)
        if claim.delta_name.startswith(SYSTEM_PREFIX):
            hint = f"names that begin with '{SYSTEM_PREFIX}' are the system's own"
            report.error(claim.location, f"{claim.owner} may not be called '{claim.delta_name}' in Delta", hint)
        # Whose tables clash, their views clash too: once is enough.
        elif first.owner != claim.owner and (first.location, claim.location) not in told:
            told.add((first.location, claim.location))
            message = (
                f"{claim.owner} and {first.owner} at {first.location} would share the Delta name '{claim.delta_name}'"
            )
            hint = "rename one of them; in Delta names, capitals become small and signs become '_'"
            report.error(claim.location, message, hint)
