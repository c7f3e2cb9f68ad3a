"""Refuse resources that would share a Delta name: Delta names have fewer different characters than Kaspr's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, channel_of
from kaspr_delta.plan.builder.report import Report
from kaspr_delta.plan.names import (
    aggregation_table,
    buffer_table,
    channel_table,
    contributions_table,
    delta_name,
    export_table,
    group_times_table,
    index_table,
    ingest_table,
    log_table,
    subscriptions_table,
    task_table,
    topic_table,
    value_view,
    waiting_table,
    windows_table,
)
from kaspr_delta.spec.app import AppSpec
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.resource import ResourceSpec
from kaspr_delta.spec.streams import Origin
from kaspr_delta.spec.table import TableSpec

SYSTEM_PREFIX = "_kaspr"
"""The prefix of the names of the system's own tables."""

# The state table of a join, by shape: it is kept beside the channel and the result.
_STATE = {
    "foreign-key": (subscriptions_table, "subscriptions"),
    "stream-table": (waiting_table, "waiting records"),
    "right-foreign-key": (index_table, "index"),
    "stream-stream": (buffer_table, "buffer"),
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A Delta name that something needs."""

    delta_name: str
    owner: str
    location: Location


def claims(application: DeclaredApplication, topics: Iterable[tuple[str, Location]]) -> Iterator[Claim]:
    """The names of all tables and views in the application's schema, including those of resources that wait."""
    for table in application.tables.values():
        yield from _of_table(table, application)
    for join in application.joins.values():
        yield from _of_join(join)
    for agent in application.agents.values():
        yield Claim(log_table(agent.name), f"the log of agent '{agent.name}'", _name_of(agent))
    for task in application.tasks.values():
        yield Claim(task_table(task.name), f"the log of task '{task.name}'", _name_of(task))
    for topic, location in topics:
        yield Claim(topic_table(topic), f"topic '{topic}'", location)
    if application.app is not None:
        yield from _of_bindings(application.app)


def _of_table(table: Declared[TableSpec], application: DeclaredApplication) -> Iterator[Claim]:
    at, spec = _name_of(table), table.spec
    yield Claim(delta_name(table.name), f"table '{table.name}'", at)
    yield Claim(value_view(table.name), f"the view of table '{table.name}'", at)
    if spec.from_ is not None:
        yield Claim(aggregation_table(table.name), f"the log of table '{table.name}'", at)
        if _made_from_rows(spec.from_, application):
            yield Claim(contributions_table(table.name), f"the contributions to table '{table.name}'", at)
            yield Claim(group_times_table(table.name), f"the times of groups of table '{table.name}'", at)
    if spec.window and spec.window.emit == "close":
        yield Claim(windows_table(table.name), f"the open windows of table '{table.name}'", at)


def _of_join(join: Declared[JoinSpec]) -> Iterator[Claim]:
    at = _name_of(join)
    if join.spec.has_result:
        yield Claim(delta_name(join.name), f"the result of join '{join.name}'", at)
        yield Claim(value_view(join.name), f"the view of join '{join.name}'", at)
    if join.spec.shape in _STATE:
        state, what = _STATE[join.spec.shape]
        yield Claim(state(join.name), f"the {what} of join '{join.name}'", at)
    channel = channel_of(join)
    at = join.source.locate_value("spec", "outputChannel") if join.spec.output_channel else at
    yield Claim(channel_table(channel), f"channel '{channel}'", at)


def _of_bindings(app: Declared[AppSpec]) -> Iterator[Claim]:
    for topic in app.spec.topics:
        at = app.source.locate("spec", "topics", topic)
        yield Claim(ingest_table(topic), f"the log of the ingest of topic '{topic}'", at)
        yield Claim(export_table(topic), f"the log of the export of topic '{topic}'", at)


def _name_of(resource: Declared[ResourceSpec]) -> Location:
    return resource.source.locate_value("metadata", "name")


def _made_from_rows(origin: Origin, application: DeclaredApplication) -> bool:
    join = application.joins.get(origin.join or "")
    return origin.table is not None or (join is not None and join.spec.has_result)


def refuse_clashes(claimed: Iterable[Claim], report: Report) -> None:
    """Report every claim for a name that is taken or belongs to the system."""
    owners: dict[str, Claim] = {}
    reported: set[tuple[Location, Location]] = set()
    for claim in claimed:
        first = owners.setdefault(claim.delta_name, claim)
        if claim.delta_name.startswith(SYSTEM_PREFIX):
            hint = f"names that begin with '{SYSTEM_PREFIX}' are the system's own"
            report.error(claim.location, f"{claim.owner} may not be called '{claim.delta_name}' in Delta", hint)
        # If the tables of two resources clash, their views clash too: report it once.
        elif first.owner != claim.owner and (first.location, claim.location) not in reported:
            reported.add((first.location, claim.location))
            message = (
                f"{claim.owner} and {first.owner} at {first.location} would share the Delta name '{claim.delta_name}'"
            )
            hint = "rename one of them; in Delta names, capitals become small and signs become '_'"
            report.error(claim.location, message, hint)
