"""Probes of tables: each statement of a batch, and what the engine takes for granted about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from statistics import median

import pyarrow as pa

from kaspr_delta.errors import SetupError, is_refusal
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.runtime.doctor.bench import LAYOUTS, LOG, ROWS, VIEW, Bench, frame_rows, in_words, rows_of, timed
from kaspr_delta.runtime.doctor.probe import Probe
from kaspr_delta.runtime.failures import short_text
from kaspr_delta.storage.layout import SYSTEM, Layout
from kaspr_delta.storage.namespace import UnityNamespace
from kaspr_delta.storage.plan_tables import tables_of
from kaspr_delta.storage.spark.grants import try_to_change, try_to_tag
from kaspr_delta.storage.tables import Merged, Transaction, Upsert

# Statements that are measured run so often; the median is shown.
_TIMES = 3


def schema(bench: Bench) -> str:
    """Create the schema and the volume if they are missing."""
    namespace = bench.delta.namespace
    exists = bench.spark.catalog.databaseExists(namespace.schema)
    if not exists and isinstance(namespace, UnityNamespace) and not namespace.application:
        raise SetupError(f"{namespace.schema} is not there: name the manifests, which the schema is made for")
    bench.delta.create_schema(bench.spark)
    return "is there" if exists else "was made"


def create(bench: Bench) -> str:
    """Create tables and a view, after those that an earlier doctor left are removed."""
    bench.clear()
    seconds = []
    for table, layout in LAYOUTS.items():
        _, took = timed(lambda table=table, layout=layout: bench.delta.create(bench.spark, table, layout))  # type: ignore[misc]
        seconds.append(took)
    bench.delta.create_view(bench.spark, VIEW, ROWS, {"key": "key"})
    return f"{in_words(median(seconds))} a table"


def append(bench: Bench) -> str:
    """Append rows, one commit each."""
    before = bench.newest(LOG)
    seconds = [timed(lambda: bench.append(LOG, append=bench.run))[1] for _ in range(_TIMES)]
    commits = bench.newest(LOG) - before
    if commits != _TIMES:
        raise SetupError(f"{_TIMES} appends made {commits} commits")
    return in_words(median(seconds))


def transaction(bench: Bench) -> str:
    """Append a row twice under one transaction, and another row under the next."""
    key = f"transaction {bench.run}"
    for version in (1, 1, 2):
        rows = rows_of({key: str(version)})
        bench.delta.append(bench.spark, rows, LOG, Transaction(f"doctor-{bench.run}", version))
    found = sorted(row["value"] for row in frame_rows(bench.delta.read(bench.spark, LOG)) if row["key"] == key)
    if found != ["1", "2"]:
        raise SetupError(f"of transactions 1, 1 and 2 the table has {', '.join(found) or 'none'}")
    return "a repeated append was skipped"


def merge(bench: Bench) -> str:
    """Merge an update, an insert and a deletion, and the same rows once more."""
    bench.append(ROWS, updated="1", deleted="1")
    done, seconds = timed(lambda: _merged(bench, updated="2", inserted="1", deleted=None))
    again = _merged(bench, updated="2", inserted="1", deleted=None)
    stored = bench.stored(ROWS)
    found = {key: stored.get(key) for key in ("updated", "inserted", "deleted")}
    if found != {"updated": "2", "inserted": "1", "deleted": None}:
        raise SetupError(f"a MERGE made {found}")
    if (done.rows, again.rows) != (3, 0):
        raise SetupError(f"a MERGE of 3 rows counted {done.rows}, and the same again {again.rows}, not 3 and 0")
    return in_words(seconds)


def _merged(bench: Bench, **values: str | None) -> Merged:
    keep = pa.array(value is not None for value in values.values())
    rows = rows_of({key: value or "" for key, value in values.items()}).append_column("keep", keep)
    return bench.delta.merge(bench.spark, rows, ROWS, Upsert(compare=("value",), keep="keep"))


def look_up(bench: Bench) -> str:
    """Look rows up by key."""
    bench.append(ROWS, wanted="1", other="1")
    seconds = []
    for _ in range(_TIMES):
        found, took = timed(lambda: frame_rows(bench.delta.look_up(bench.spark, ROWS, {"key": ["wanted"]})))
        seconds.append(took)
        if [row["key"] for row in found] != ["wanted"]:
            raise SetupError(f"a look-up of one key found {len(found)} rows")
    return in_words(median(seconds))


def change_feed(bench: Bench) -> str:
    """Read the change feed of single versions: of an append, and of a MERGE after it."""
    first = bench.newest(ROWS) + 1
    bench.append(ROWS, changed="1")
    _merged(bench, changed="2")
    found = [bench.changes(ROWS, version) for version in (first, first + 1)]
    expected = [
        [("insert", "changed", "1")],
        [("update_postimage", "changed", "2"), ("update_preimage", "changed", "1")],
    ]
    if found != expected:
        raise SetupError(f"the feed of two versions has {found}")
    return "each version has its own changes"


def pinned(bench: Bench) -> str:
    """Read a version that is not the newest one."""
    bench.append(ROWS, pinned="1")
    version = bench.newest(ROWS)
    bench.append(ROWS, later="1")
    stored = bench.stored(ROWS, version)
    if "pinned" not in stored or "later" in stored:
        raise SetupError(f"version {version} was read with the rows {sorted(stored)}")
    return f"version {version} was read after version {bench.newest(ROWS)}"


def row_tracking(bench: Bench) -> str:
    """Read rows of an append-only table with the versions of their commits."""
    committed = {}
    for number in range(_TIMES):
        bench.append(LOG, tracked=f"{bench.run} {number}")
        committed[f"{bench.run} {number}"] = bench.newest(LOG)
    rows = bench.delta.appended_rows(bench.spark, LOG)
    if rows is None:
        raise SetupError("the table has no row tracking")
    found = {row["value"]: int(row["_commit_version"]) for row in frame_rows(rows) if row["value"] in committed}
    if found != committed:
        raise SetupError(f"rows of versions {list(committed.values())} have versions {list(found.values())}")
    return "each row has the version of its commit"


def own_tables(plan: Plan, bench: Bench) -> str:
    """Try to read and to change each table of an application that is there. Nothing is changed.

    Whoever ran before may have made them.
    """
    found, refused = 0, dict[str, str]()
    for table in dict.fromkeys((*SYSTEM, *(table for _, table, _ in tables_of(plan)))):
        try:
            bench.delta.read(bench.spark, table).limit(0).collect()
            try_to_change(bench.spark, bench.delta.namespace.identifier(table))
            found += 1
        except Exception as error:  # noqa: BLE001  each catalog has its own error
            if is_refusal(error) or bench.delta.exists(bench.spark, table):
                refused[table] = short_text(error)
    _raise_refused(refused)
    return f"{found} are there, and may be read and changed"


def of_own(plan: Plan) -> Probe:
    """The probe of an application's own tables."""
    return Probe(
        "tables",
        "May the application's own tables that are there be read and changed?",
        partial(own_tables, plan),
        "runs go on with them",
        "resources of these tables wait or fail",
        ("SELECT", "MODIFY"),
    )


def tags(plan: Plan, bench: Bench) -> str:
    """Tag a throw-away table as tables of the application are declared to be, and try to change the tags of these."""
    delta, spark = bench.delta, bench.spark
    if not delta.exists(spark, ROWS):
        raise SetupError("there is no table to be tagged, see the probe `create`")
    declared = {table: layout.storage.tags for _, table, layout in tables_of(plan) if layout.storage.tags}
    refused = dict[str, str]()
    for some in dict.fromkeys(declared.values()):  # a tag may have another value on another table
        problems = delta.declare(spark, ROWS, Layout(LAYOUTS[ROWS].columns, storage=StoragePlan(tags=some)))
        refused |= dict.fromkeys(problems, "on a throw-away table")
    for table in declared:
        try:
            if delta.exists(spark, table):
                try_to_tag(spark, delta.namespace.identifier(table))
        except Exception as error:  # noqa: BLE001  each catalog has its own error
            refused[table] = short_text(error)
    _raise_refused(refused)
    return f"those of {len(declared)} tables"


def of_tags(plan: Plan) -> Iterator[Probe]:
    """The probe of the tags of an application's tables, if it declares any."""
    if any(layout.storage.tags for _, _, layout in tables_of(plan)):
        yield Probe(
            "tags",
            "May tables get the tags that manifests declare?",
            partial(tags, plan),
            "the next run gives its tables those that they have not got",
            "the run says which were refused, and goes on without them",
            ("APPLY TAG", "ASSIGN"),
            if_not="note",
        )


def _raise_refused(refused: Mapping[str, str]) -> None:
    if refused:
        raise SetupError("; ".join(f"{name}: {why}" for name, why in refused.items()))


SCHEMA = Probe(
    "schema",
    "Is the schema there, or may it be made?",
    schema,
    "tables of the application are made in it",
    "nothing runs",
    ("USE CATALOG", "CREATE SCHEMA", "USE SCHEMA", "CREATE VOLUME"),
)
PROBES = (
    Probe(
        "create",
        "May tables and views be made?",
        create,
        "the first run makes all tables; later ones only those that are missing",
        "a resource whose table cannot be made waits",
        ("CREATE TABLE", "CREATE EXTERNAL TABLE"),
    ),
    Probe(
        "append",
        "How long does an append of one row take?",
        append,
        "the least cost of a batch: it has one append, and one for its progress",
        "no batch can be committed",
    ),
    Probe(
        "transaction",
        "Does an append honour its transaction identifier?",
        transaction,
        "a batch that is repeated after a crash is in the log once",
        "a batch that is repeated after a crash would be in the log twice: do not run here",
    ),
    Probe(
        "merge",
        "How long does a MERGE of three rows take, and does it count the rows that it changed?",
        merge,
        "a batch costs one such MERGE for each table that follows its log",
        "results and state cannot follow the log, or are wrong: do not run here",
    ),
    Probe(
        "look-up",
        "How long does a look-up of one key take?",
        look_up,
        "a small batch of a join looks its rows up so, on both sides",
        "joins cannot find their rows",
    ),
    Probe(
        "change feed",
        "Can the change feed of one version be read?",
        change_feed,
        "joins and agents learn from it which keys changed",
        "joins and agents would miss changes: do not run here",
    ),
    Probe(
        "pinned version",
        "Can a version be read that is not the newest?",
        pinned,
        "a batch sees one consistent state of each table",
        "a batch could see two states of a table: do not run here",
    ),
)
IN_CATALOG = (
    Probe(
        "row tracking",
        "Does each row of a topic keep the version of its commit?",
        row_tracking,
        "a topic whose old changes are gone is read from its rows, in their order",
        "an agent that rests for longer than the feed reaches back has to be deleted and applied again",
        if_not="note",
    ),
)
