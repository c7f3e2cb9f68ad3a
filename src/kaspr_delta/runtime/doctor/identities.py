"""Probes of what identities may do: those of readers, owners, viewers and the App, and of the tasks when data go.

A catalog and a workspace may show grants and permissions to some people only, and a grant may come by a group. So what
is not seen is a note.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.doctor.bench import Bench
from kaspr_delta.runtime.doctor.probe import Probe
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.spark.grants import may_grant, missing_on
from kaspr_delta.workspace.deployed import Workspace
from kaspr_delta.workspace.rights import Right, unseen_jobs

# Everybody in the account.
_EVERYBODY = "account users"
# The parts of a table's name, with the privilege that a reader needs on each.
_PARTS = {"CATALOG": "USE CATALOG", "SCHEMA": "USE SCHEMA", "TABLE": "SELECT"}
_QUERIED = ("system.query.history", "system.billing.usage", "system.lakeflow.jobs")


@dataclass(frozen=True, slots=True)
class Identities:
    """The identities beside that of the tasks, as a deployment names them.

    ``granted`` are those that get grants on the schema, ``app`` is the service principal of the App, ``watchers`` look
    at the dashboard through the SQL warehouse with the id ``watched_through``. ``jobs`` are ids: of the application's.
    """

    granted: Sequence[str] = ()
    app: str = ""
    watchers: Sequence[str] = ()
    watched_through: str = ""
    jobs: Sequence[str] = ()


def catalog(principals: Sequence[str], bench: Bench) -> str:
    """Look whether principals may use the catalog: by grants of their own, or of everybody."""
    held = f"CATALOG {bench.delta.namespace.schema.rpartition('.')[0]}"
    _refuse(_missing(bench, ("USE CATALOG",), held, principals))
    return _counted(principals)


def sources(app: str, tables: Sequence[str], bench: Bench) -> str:
    """Look whether the App may read tables of others."""
    needed: dict[str, str] = {}
    for table in tables:
        parts = [quoted(part) for part in table.split(".")]
        kinds = list(_PARTS)[-len(parts) :]  # a name may leave its catalog out
        needed.update({f"{kind} {'.'.join(parts[:at])}": _PARTS[kind] for at, kind in enumerate(kinds, 1)})
    missing = (_missing(bench, (privilege,), held_on, [app]) for held_on, privilege in needed.items())
    _refuse(list(chain.from_iterable(missing)))
    return f"{len(tables)} may be read"


def removal(bench: Bench) -> str:
    """Look whether the identity of this task owns or manages the schemas of the application."""
    namespace = bench.delta.namespace
    schemas = [one for one in (namespace.schema, namespace.internal) if one is not None]
    refused = [schema for schema in schemas if not may_grant(bench.spark, schema)]
    if refused:
        raise SetupError(f"it neither owns nor manages {' and '.join(refused)}")
    return "it owns or manages what it would remove"


def jobs(ids: Sequence[str], _: Bench) -> str:
    """Look whether the identity of this task sees the jobs of the application."""
    unseen = unseen_jobs(Workspace.connect().client, ids)
    if unseen:
        raise SetupError(f"not seen: {', '.join(unseen)}")
    return f"it sees all {len(ids)}"


def dashboard(watchers: Sequence[str], sql_warehouse: str, bench: Bench) -> str:
    """Look whether principals may use the SQL warehouse, and read the schema."""
    schema = bench.delta.namespace.internal or bench.delta.namespace.schema
    _refuse(
        [
            *_missing(bench, ("USE CATALOG",), f"CATALOG {schema.rpartition('.')[0]}", watchers),
            *_missing(bench, ("USE SCHEMA", "SELECT"), f"SCHEMA {schema}", watchers),
            *Right("warehouses", sql_warehouse).missing(Workspace.connect().client, watchers),
        ]
    )
    return _counted(watchers)


def system_tables(bench: Bench) -> str:
    """Read no rows of the system tables that the queries of ``plan --cost`` read."""
    for table in _QUERIED:
        bench.spark.sql(f"TABLE {table}").limit(0).collect()
    return f"{', '.join(_QUERIED)} may be read"


def _missing(bench: Bench, privileges: Sequence[str], held_on: str, principals: Sequence[str]) -> list[str]:
    """The privileges that principals have not got, in words. What everybody has nobody needs.

    A catalog shows grants to administrators, owners and the principals themselves; to others it may refuse that.
    """
    from pyspark.errors import PySparkException

    wanted, found = list(privileges), list[str]()
    with contextlib.suppress(PySparkException):
        wanted = missing_on(bench.spark, held_on, privileges, _EVERYBODY)
    for one in principals if wanted else ():
        try:
            missing = missing_on(bench.spark, held_on, wanted, one)
        except PySparkException:
            return [f"grants on {held_on}, which are not shown here"]
        if missing:
            found.append(f"{', '.join(missing)} of {one} on {held_on}")
    return found


def _refuse(missing: Sequence[str]) -> None:
    if missing:
        raise SetupError(f"not seen, though a group may give it: {'; '.join(missing)}")


def _counted(principals: Sequence[str]) -> str:
    return f"all {len(principals)} of them" if len(principals) > 1 else "yes"


def read_by_web_views(plan: Plan) -> tuple[str, ...]:
    """The tables of others in a catalog that web views of an application read."""
    names = {name for view in plan.web_views for name in view.tables}
    foreign = [one.delta_name for one in plan.tables if one.is_foreign and one.name in names]
    return tuple(dict.fromkeys(name for name in foreign if "/" not in name and "." in name))


PURGE = Probe(
    "purge",
    "May the identity of the tasks remove the schemas?",
    removal,
    "`purge` in the job for operations removes the data",
    "`purge` is for who owns or manages the schemas",
    ("MANAGE",),
    if_not="note",
)


def probes(plan: Plan | None, of: Identities) -> Iterator[Probe]:
    """The probes of identities that a deployment names."""
    if of.granted:
        yield Probe(
            "catalog",
            "May readers, owners and the App use the catalog?",
            partial(catalog, of.granted),
            "they reach what the first tasks of a job grant to them",
            "where it is missing, their statements are refused until the owner of the catalog grants it",
            ("USE CATALOG",),
            if_not="note",
        )
    tables = read_by_web_views(plan) if of.app and plan is not None else ()
    if tables:
        yield Probe(
            "sources of the App",
            "May the App read the tables of others that its web views read?",
            partial(sources, of.app, tables),
            "web views read them",
            "where it may not, web views that read them answer with an error",
            ("USE CATALOG", "USE SCHEMA", "SELECT"),
            if_not="note",
        )
    if of.jobs:
        yield PURGE
        yield Probe(
            "jobs",
            "May the identity of the tasks see the jobs of the application?",
            partial(jobs, of.jobs),
            "`purge` sees which of them use the schema; for those of other applications it needs the same right",
            "`purge` does not see that they use the schema",
            ("CAN VIEW",),
            if_not="note",
        )
    if of.watched_through and of.watchers:
        yield Probe(
            "dashboard",
            "May viewers and operators use the SQL warehouse of the dashboard, and read its tables?",
            partial(dashboard, of.watchers, of.watched_through),
            "the dashboard shows its figures to them",
            "where they may not, the dashboard shows errors; the engine needs none of it",
            ("CAN USE", "USE SCHEMA", "SELECT"),
            if_not="note",
        )
    if of.watched_through:
        yield Probe(
            "system tables",
            "May the identity of the tasks read the system tables of queries and usage?",
            system_tables,
            "it may ask the queries of `plan --cost`",
            "the queries of `plan --cost` are for others; the engine needs none of it",
            ("SELECT",),
            if_not="note",
        )
