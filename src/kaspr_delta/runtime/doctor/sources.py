"""Probes of the Delta tables of others that an application reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kaspr_delta.control.source_tables import is_missing
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.doctor.bench import Bench
from kaspr_delta.runtime.doctor.probe import Probe
from kaspr_delta.runtime.typed_tables import TypedTables


def source(table: str, bench: Bench) -> str:
    """Read no rows of a source, of its newest version by number and of its change feed."""
    spark, delta = bench.spark, bench.delta
    columns = TypedTables(spark, delta).columns_of_source(table)
    if not isinstance(columns, tuple):
        raise SetupError(columns or is_missing(table))
    version = delta.newest(spark, table).version
    delta.read(spark, table, version).limit(0).collect()
    delta.changes(spark, table, version, version).limit(0).collect()
    return f"{len(columns)} columns, version {version}"


def policies(table: str, bench: Bench) -> str:
    """Look for attribute policies that apply to a source. Row filters and masks of the table itself are refused."""
    found = bench.delta.policies(bench.spark, table)
    if found:
        raise SetupError(f"these apply: {', '.join(found)}")
    return "none that can be seen"


def probes(plan: Plan, *, in_catalog: bool) -> Iterator[Probe]:
    """The probes of all sources of an application."""
    for table in dict.fromkeys(table.delta_name for table in plan.tables if table.is_foreign):
        yield Probe(
            f"source {table}",
            "Is it there, with a change feed, and may it be read?",
            partial(source, table),
            "joins and agents read it",
            "resources that read it wait, and the run says why; the others run",
            ("USE CATALOG", "USE SCHEMA", "SELECT"),
        )
        if in_catalog and "/" not in table:
            yield Probe(
                f"policies of {table}",
                "Is it without attribute policies?",
                partial(policies, table),
                "results have all its rows and values",
                "results have only the rows and values that the identity of the job may see",
                if_not="note",
            )
