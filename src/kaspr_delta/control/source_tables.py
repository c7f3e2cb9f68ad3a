"""Delta tables of others: whether resources can read them as they are. `run` and commands without Spark ask it here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from kaspr_delta.control.stored_tables import stored_misfits
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.plan.definition.typed_joins import type_problems
from kaspr_delta.plan.definition.waiting import waiting_with
from kaspr_delta.spec.column_types import column_problems, key_problems
from kaspr_delta.spec.ddl import Column
from kaspr_delta.spec.diagnostics import Finding, Severity
from kaspr_delta.spec.join import KasprJoin
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.spec.loader import LoadedManifest
from kaspr_delta.storage.layout import CHANGE_FEED
from kaspr_delta.storage.namespace import Namespace
from kaspr_delta.storage.native.delta_rs import DeltaRs, is_refused
from kaspr_delta.storage.native.readable import read_errors, reason_of
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.spark.description import Description
from kaspr_delta.storage.system_tables import SystemTables, known_topics

ColumnsOf: TypeAlias = Callable[[str], "tuple[Column, ...] | str | None"]
"""The columns of a Delta table that others write; the reason if it cannot be read, None if only Spark can tell."""

_TURN_ON = "ALTER TABLE {} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def columns_in_folder(delta: DeltaRs, table: str) -> tuple[Column, ...] | str | None:
    """Implements ColumnsOf. Only Spark reads tables of a catalog, and some features of tables in folders."""
    if not delta.has_folder(table):
        return None
    try:
        columns = delta.types(table)
        if columns is None:
            return is_missing(table)
        return columns if delta.property(table, CHANGE_FEED) == "true" else does_not_tell(table, delta.namespace)
    except SetupError:  # delta-rs is not installed
        return None
    except read_errors() as error:
        return None if is_refused(error) else f"'{table}', which it stands for, cannot be read: {reason_of(error)}"


def is_missing(table: str) -> str:
    """The message that a table does not exist."""
    return f"'{table}', which it stands for, is not there"


def does_not_tell(table: str, namespace: Namespace) -> str:
    """The message that a table's change feed is off, with the statement by which its owner turns it on."""
    statement = _TURN_ON.format(namespace.identifier(table))
    return f"the change data feed of '{table}' is off: its owner has to run {statement}"


_WITHOUT_FEED = {
    "VIEW": "a view, which has no change data feed: name the table that it reads",
    "METRIC_VIEW": "a metric view, which has no change data feed: name the table that it reads",
    "MATERIALIZED_VIEW": "a materialized view, which has neither a change data feed nor earlier versions: name the"
    " tables that it is made from, or let its pipeline fill a streaming table",
    "FOREIGN": "a foreign table, which has no change data feed: copy it into a Delta table, and name that",
}
_FORMATS = {
    "iceberg": "is an Iceberg table whose changes cannot be read: it needs version 3 of the format and Databricks"
    " Runtime 18 or newer",
    "deltasharing": "is a shared table whose changes cannot be read: its provider has to turn its change data feed on"
    " (delta.enableChangeDataFeed = true) and to share it WITH HISTORY",
}


def refusal(
    table: str, described: Description, namespace: Namespace, *, reads_changes: Callable[[], bool]
) -> str | None:
    """Why resources cannot read a table of others, by the description in its catalog; None if they can.

    ``reads_changes`` tries to read changes. It is asked where no property tells whether that is possible.
    """
    # Delta tables of a federated metastore are called foreign too.
    as_delta = described.kind == "FOREIGN" and described.provider in {"delta", "deltasharing"}
    if described.kind in _WITHOUT_FEED and not as_delta:
        return f"'{table}' is {_WITHOUT_FEED[described.kind]}"
    hidden = [
        *(["a row filter"] if described.filters_rows else []),
        *(f"a mask on '{one}'" for one in described.masked),
    ]
    if hidden:
        return (
            f"'{table}' has {' and '.join(hidden)}, and Databricks reads no earlier version of such a table: its owner"
            " has to take that off the table, and may put it into a view for those who have to see less"
        )
    given = described.has_change_feed and described.provider not in _FORMATS
    undecided = described.tracks_rows or described.provider in _FORMATS
    return None if given or (undecided and reads_changes()) else _feed_is_off(table, described, namespace)


def _feed_is_off(table: str, described: Description, namespace: Namespace) -> str:
    """The message that changes of a table cannot be read, with the remedy."""
    if described.provider in _FORMATS:
        return f"'{table}' {_FORMATS[described.provider]}"
    if described.provider not in {"", "delta"}:
        return f"'{table}' is a table of {described.provider}, which has no change data feed: make it a Delta table"
    if described.kind == "STREAMING_TABLE":
        return (
            f"the change data feed of '{table}' is off: the pipeline that fills it has to set the table property"
            f" {CHANGE_FEED} = true"
        )
    return does_not_tell(table, namespace)


def policy_notice(table: str, policies: Iterable[str]) -> str:
    """A sentence for people about the attribute policies that apply to a table."""
    names = ", ".join(policies)
    return (
        f"attribute policies apply to '{table}' ({names}): resources see its rows as the identity that runs them may."
        " Exempt that identity (EXCEPT) in a policy that hides rows or masks columns from it. Dedicated clusters cannot"
        " read such a table: let the jobs run on serverless compute"
    )


def known(table: TablePlan, columns_of: ColumnsOf) -> TablePlan | str:
    """A table with its columns, or why resources cannot read it. Of the own tables the columns are known already."""
    columns = columns_of(table.delta_name) if table.is_foreign else None
    if columns is None or table.typed is None:
        return table
    if isinstance(columns, str):
        return columns
    problems = (*column_problems(columns, written=False), *key_problems(columns, table.typed.key))
    if problems:
        return "; ".join(f"{message} in '{table.delta_name}' ({hint})" for message, hint in problems)
    return replace(table, typed=replace(table.typed, columns=columns))


def looked_up(plan: Plan, columns_of: ColumnsOf) -> tuple[Plan, dict[ResourceRef, str]]:
    """The plan with the columns of tables of others, and the reasons of the tables and joins that cannot run."""
    tables, reasons = list[TablePlan](), dict[ResourceRef, str]()
    for table in plan.tables:
        found = known(table, columns_of)
        if isinstance(found, str):
            reasons[table.ref] = found
        tables.append(table if isinstance(found, str) else found)
    plan = replace(plan, tables=tuple(tables))
    for join in plan.joins:
        misfits = list(type_problems(plan, join)) if isinstance(join, TableTableJoinPlan) else []
        if misfits:
            reasons[join.ref] = "; ".join(misfit.message for misfit in misfits)
    return plan, reasons


def known_by_name(plan: Plan, names: Iterable[str], columns_of: ColumnsOf) -> dict[str, TablePlan | str]:
    """Tables and results of joins by their names, with their columns, or why they cannot be read."""
    read = {name: set(_read_by(plan, name)) for name in names}
    found = {name: known(plan.known_table(name), columns_of) for name in sorted(set().union(*read.values()))}
    tables = (one if isinstance(one := found.get(table.name), TablePlan) else table for table in plan.tables)
    plan = replace(plan, tables=tuple(tables))
    reasons = {name: [found[one] for one in sorted(found) if one in read[name]] for name in read}
    return {
        name: next((one for one in of if isinstance(one, str)), None) or plan.table_or_result(name)
        for name, of in reasons.items()
    }


def _read_by(plan: Plan, name: str) -> Iterator[str]:
    """The table of that name, or the tables from which a join makes the result of that name."""
    join = plan.join_for_table(name)
    for side in () if join is None else (join.left, join.right):
        yield from _read_by(plan, side)
    if join is None:
        yield name


def as_found(system: SystemTables, plan: Plan) -> Plan:
    """The plan with the topics that functions named, in which resources wait also because of tables in folders.

    These are tables of others, and stored tables that do not fit. They wait as `run` would find those tables now. In a
    catalog only a session looks at them.
    """
    if plan.names_topics:
        plan = plan.with_named_topics(known_topics(system))
    if not isinstance(system, NativeSystemTables):
        return plan
    delta = system.delta
    found, reasons = looked_up(plan, lambda table: columns_in_folder(delta, table))
    return waiting_with(plan, {**stored_misfits(delta, found), **reasons})


def source_findings(delta: DeltaRs, plan: Plan, manifests: Iterable[LoadedManifest]) -> Iterator[Finding]:
    """Warnings about tables of others in folders that resources cannot read as they are, at the fields of manifests."""
    _, reasons = looked_up(plan, lambda table: columns_in_folder(delta, table))
    for one in manifests:
        name, kind = one.manifest.metadata.name, short_kind(one.manifest.kind)
        reason = reasons.get(ResourceRef(kind, name))
        if reason is not None and one.manifest.metadata.application == plan.application:
            field = one.manifest.spec.key_field or "on" if isinstance(one.manifest, KasprJoin) else "source"
            yield Finding(Severity.WARNING, one.positions.key(("spec", field)), f"{kind} '{name}' waits: {reason}")
