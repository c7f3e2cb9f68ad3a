"""Refuse resources that would share a Delta name: Delta names have fewer different characters than Kaspr's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kaspr_delta.plan import names
from kaspr_delta.plan.builder.applications import Declared, DeclaredApplication, channel_of
from kaspr_delta.spec.diagnostics import Location, Report
from kaspr_delta.spec.join import JoinSpec
from kaspr_delta.spec.table import TableSpec

SYSTEM_PREFIX = "_kaspr"
"""The prefix of the names of the system's own tables."""

# The state table of a join, by shape: it is kept beside the channel and the result.
_STATE = {
    "foreign-key": (names.subscriptions_table, "subscriptions"),
    "stream-table": (names.waiting_table, "waiting records"),
    "right-foreign-key": (names.index_table, "index"),
    "stream-stream": (names.buffer_table, "buffer"),
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
        yield Claim(names.log_table(agent.name), f"the log of agent '{agent.name}'", agent.named_at)
    for task in application.tasks.values():
        yield Claim(names.task_table(task.name), f"the log of task '{task.name}'", task.named_at)
    for topic, location in topics:
        yield Claim(names.topic_table(topic), f"topic '{topic}'", location)
    if app := application.app:
        for topic in app.spec.topics:
            at = app.key_at("topics", topic)
            yield Claim(names.ingest_table(topic), f"the log of the ingest of topic '{topic}'", at)
            yield Claim(names.export_table(topic), f"the log of the export of topic '{topic}'", at)


def _of_table(table: Declared[TableSpec], application: DeclaredApplication) -> Iterator[Claim]:
    at, spec = table.named_at, table.spec
    yield Claim(names.delta_name(table.name), f"table '{table.name}'", at)
    yield Claim(names.value_view(table.name), f"the view of table '{table.name}'", at)
    if spec.from_ is not None:
        yield Claim(names.aggregation_table(table.name), f"the log of table '{table.name}'", at)
        join = application.joins.get(spec.from_.join or "")
        if spec.from_.table is not None or (join is not None and join.spec.has_result):
            yield Claim(names.contributions_table(table.name), f"the contributions to table '{table.name}'", at)
            yield Claim(names.group_times_table(table.name), f"the times of groups of table '{table.name}'", at)
            yield from _compared(table)
    if spec.window and spec.window.emit == "close":
        yield Claim(names.windows_table(table.name), f"the open windows of table '{table.name}'", at)


def _compared(one: Declared[TableSpec] | Declared[JoinSpec]) -> Iterator[Claim]:
    """The tables and the view beside a result whose definition may change."""
    for name, what in (names.differences_table, "differences"), (names.shown_table, "shown rows"):
        yield Claim(name(one.name), f"the {what} of {one.ref}", one.named_at)
    yield Claim(names.current_view(one.name), f"the current view of {one.ref}", one.named_at)


def _of_join(join: Declared[JoinSpec]) -> Iterator[Claim]:
    at = join.named_at
    if join.spec.has_result:
        yield Claim(names.delta_name(join.name), f"the result of join '{join.name}'", at)
        yield Claim(names.value_view(join.name), f"the view of join '{join.name}'", at)
        yield from _compared(join)
    if join.spec.shape in _STATE:
        state_table, what = _STATE[join.spec.shape]
        yield Claim(state_table(join.name), f"the {what} of join '{join.name}'", at)
    channel = channel_of(join)
    at = join.at("outputChannel") if join.spec.output_channel else at
    yield Claim(names.channel_table(channel), f"channel '{channel}'", at)
    yield Claim(names.records_view(channel), f"the records of channel '{channel}'", at)


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
            both = f"{claim.owner} and {first.owner} at {first.location}"
            message = f"{both} would share the Delta name '{claim.delta_name}'"
            hint = "rename one of them; in Delta names, capitals become small and signs become '_'"
            report.error(claim.location, message, hint)
