"""Probes of the platform around the tables: versions, grants, the package index."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat

from kaspr_delta.errors import SetupError
from kaspr_delta.grant import Grant
from kaspr_delta.runtime.doctor.bench import Bench
from kaspr_delta.runtime.doctor.probe import Probe
from kaspr_delta.runtime.versions import Versions
from kaspr_delta.storage.spark.grants import may_grant, missing_privileges
from kaspr_delta.workspace.deployed import Workspace
from kaspr_delta.workspace.rights import Right

# Asks the index for a package that is needed anyway, and installs nothing.
_PIP = (
    "-m",
    "pip",
    "install",
    "--dry-run",
    "--ignore-installed",
    "--no-deps",
    "--no-input",
    "--quiet",
    "--retries",
    "0",
)
_PACKAGE = "filelock"


def versions(bench: Bench) -> str:
    """Compare the versions of Spark, Delta and Python with those of the tests."""
    found = Versions.with_spark(bench.spark.version)
    if found.warning is not None:
        raise SetupError(found.warning)
    return str(found)


def grants(wanted: Sequence[Grant], on_internal: Sequence[Grant], bench: Bench) -> str:
    """Look which grants are missing, and whether this user may make them."""
    namespace = bench.delta.namespace
    found = [
        *_missing(bench, namespace.schema, wanted),
        *(_missing(bench, namespace.internal, on_internal) if namespace.internal is not None else ()),
    ]
    refused = [text for text, is_mine in found if not is_mine]
    if refused:
        raise SetupError(f"missing, and this user neither owns nor manages the schema: {'; '.join(refused)}")
    missing = "; ".join(text for text, _ in found)
    return f"missing: {missing}" if missing else "all there"


def _missing(bench: Bench, schema: str, wanted: Sequence[Grant]) -> Iterator[tuple[str, bool]]:
    """The grants that are missing on a schema, in words, each with whether this user may make it."""
    namespace = bench.delta.namespace
    missing = [
        f"{', '.join(privileges)} of {grant.principal} on {schema}"
        for grant in wanted
        if (privileges := missing_privileges(bench.spark, namespace, grant, schema))
    ]
    if missing:  # asked once: it takes several statements
        yield from zip(missing, repeat(may_grant(bench.spark, schema)))


def package_index(bench: Bench) -> str:
    """Ask the index of pip for a package."""
    command = [sys.executable, *_PIP, "--timeout", str(bench.patience), _PACKAGE]
    # The command is this probe's own.
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SetupError((done.stderr.strip() or "pip failed").splitlines()[-1])
    return f"it has {_PACKAGE}"


def held(wanted: Right, _: Bench) -> str:
    """Look whether the identity of this task has a right on an object of the workspace."""
    wanted.check(Workspace.connect().client)
    return f"{wanted.level} or more"


def of_rights(started_job: str, sql_warehouse: str) -> Iterator[Probe]:
    """The probes of the rights to start a job, and to use a SQL warehouse, by their ids; none of an empty one.

    A workspace may show permissions to some people only. So a right that is not seen is no problem.
    """
    if started_job:
        yield Probe(
            "job",
            "May the identity of the tasks start the job that updates of tables start?",
            partial(held, Right("jobs", started_job)),
            "the job by the clock starts it",
            "what the trigger misses waits for the next update",
            ("CAN MANAGE RUN",),
            if_not="note",
        )
    if sql_warehouse:
        yield Probe(
            "SQL warehouse",
            "May the identity of the tasks use the SQL warehouse?",
            partial(held, Right("warehouses", sql_warehouse)),
            "alerts that run as it ask there",
            "alerts that run as it do not; the engine needs no SQL warehouse",
            ("CAN USE",),
            if_not="note",
        )


VERSIONS = Probe(
    "versions",
    "Were these versions of Spark, Delta and Python tried together?",
    versions,
    "the tests run on these",
    "each run warns of it, and goes on",
    if_not="note",
)
IN_CATALOG = (
    Probe(
        "package index",
        "Does the package index answer from which tasks install their environments?",
        package_index,
        "tasks install the wheel and its packages at their start",
        "a task starts only where its environment was installed before",
        if_not="note",
    ),
)


def of_grants(wanted: Sequence[Grant], on_internal: Sequence[Grant] = ()) -> Probe:
    """The probe of the grants that a job makes on the schema, and on that of internal tables."""
    return Probe(
        "grants",
        "Are the grants there, or may they be made?",
        partial(grants, wanted, on_internal),
        "the first tasks of a job make those that are missing",
        "a run with these grants stops, and names the statement that the owner has to run",
        ("MANAGE",),
    )
