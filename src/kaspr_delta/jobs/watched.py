"""The tables whose updates start a job: those that an application reads and others write."""

from __future__ import annotations

from collections.abc import Iterator

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs.storage import Storage
from kaspr_delta.plan.definition.application import Plan

_FULL_NAME = 3


def watched_tables(plan: Plan, storage: Storage) -> tuple[str, ...]:
    """The names, ``catalog.schema.table``, of the tables that start a job of joins, agents and made tables.

    What this job writes itself is not among them. Topics to which tasks and web views send are: other jobs run those.
    Raises UsageError if there are none, for what no update announces (topics that Kafka or files feed, and sources that
    are paths), and for sources without a catalog in their names.
    """
    bound = [topic.name for topic in plan.topics if topic.binding is not None and topic.binding.direction == "input"]
    if bound:
        raise UsageError(
            f"variable 'trigger': table_update is for tables, and {', '.join(bound)} has records from elsewhere:"
            " leave it out, and give a 'schedule'"
        )
    tables = tuple(sorted(set(_names(plan, storage))))
    paths = [table for table in tables if "/" in table]
    if paths:
        raise UsageError(
            f"variable 'trigger': table_update is for tables of the catalog, and these are paths: {', '.join(paths)}."
            " Leave it out, and give a 'schedule'"
        )
    if not tables:
        raise UsageError(f"variable 'trigger': {plan.application} reads no table that others write: give a 'schedule'")
    return tables


def _names(plan: Plan, storage: Storage) -> Iterator[str]:
    written = {edge.target for edge in plan.edges}
    for node in {edge.source for edge in plan.edges} - written:
        kind, _, name = node.partition("/")
        topic = plan.topic(name) if kind == "topic" else None
        table = plan.table(name) if kind == "table" else None
        if topic is not None:
            yield f"{storage.full_name}.{topic.delta_name}"
        elif table is not None and table.typed is not None and table.typed.source is not None:
            yield _full_name(table.typed.source)
        elif table is not None:
            yield f"{storage.full_name}.{table.delta_name}"


def _full_name(source: str) -> str:
    """The name of a source, or its path. Raises UsageError for a name without a catalog: tasks read it in their own."""
    if "/" not in source and source.count(".") + 1 < _FULL_NAME:
        raise UsageError(f"variable 'trigger': table_update needs the catalog of the source {source!r} in its name")
    return source
