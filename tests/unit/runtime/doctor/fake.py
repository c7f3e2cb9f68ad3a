"""A warehouse in memory that does all that the engine relies on; ``with_faults`` replaces some of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException

from kaspr_delta.runtime.doctor import files, streams
from kaspr_delta.runtime.doctor.bench import Bench
from kaspr_delta.runtime.doctor.probe import Answer
from kaspr_delta.runtime.doctor.tables import IN_CATALOG, PROBES, SCHEMA
from kaspr_delta.storage.layout import CHANGE_FEED, Layout
from kaspr_delta.storage.namespace import LocalNamespace, Namespace
from kaspr_delta.storage.spark.description import Description
from kaspr_delta.storage.tables import Commit, Merged, Transaction

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
Change = tuple[str, str, str]
Fake = TypeVar("Fake")


def with_faults(fake: type[Fake], **members: Any) -> type[Fake]:
    """The class with other members. An error in the place of a method is raised by it."""

    def raising(error: Exception) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            raise error

        return fail

    replaced = {name: raising(one) if isinstance(one, Exception) else one for name, one in members.items()}
    return type(f"{fake.__name__}WithFaults", (fake,), replaced)


@dataclass
class FakeRows:
    """Rows as a DataFrame has them."""

    rows: Sequence[Mapping[str, Any]]
    spark: Any = None

    def toArrow(self) -> pa.Table:  # noqa: N802  Spark's name
        return pa.Table.from_pylist(list(self.rows))

    def limit(self, number: int) -> FakeRows:
        return FakeRows(self.rows[:number])

    def collect(self) -> Sequence[Mapping[str, Any]]:
        return self.rows

    def count(self) -> int:
        return len(self.rows)

    @property
    def sparkSession(self) -> Any:  # noqa: N802  Spark's name
        return self.spark


class FakeSpark:
    """A session: answers of ``sql`` by a part of the statement; files are read by pyarrow."""

    version = "4.2.0"

    def __init__(self, answers: Mapping[str, Sequence[Any] | Exception] | None = None) -> None:
        self.answers = answers or {}
        self.catalog = self.read = self.write = self
        # The folders of files that were written, and the statements.
        self.written: list[str] = []
        self.statements: list[str] = []

    def databaseExists(self, _: str) -> bool:  # noqa: N802  Spark's name
        return True

    def sql(self, text: str, _: Mapping[str, Any] | None = None) -> FakeRows:
        answer = next((rows for part, rows in self.answers.items() if part in text), [])
        self.statements.append(text)
        if isinstance(answer, Exception):
            raise answer
        return FakeRows(answer)

    def range(self, _: int) -> FakeSpark:
        return self

    def selectExpr(self, _: str) -> FakeSpark:  # noqa: N802  Spark's name
        return self

    def mode(self, _: str) -> FakeSpark:
        return self

    def text(self, folder: str) -> None:
        self.written.append(folder)

    def format(self, _: str) -> FakeSpark:
        return self

    def load(self, _: str) -> FakeRows:
        return FakeRows([])

    def parquet(self, folder: str) -> FakeRows:
        return FakeRows(pq.read_table(folder).to_pylist())


class FakeTables:
    """Delta tables of keys and values: by table, the changes of each version."""

    def __init__(self, namespace: Namespace, spark: Any) -> None:
        self.namespace, self.spark = namespace, spark
        self.commits: dict[str, list[list[Change]]] = {}
        self.transactions: dict[tuple[str, str], int] = {}
        # By checkpoint, the version up to which a stream has read.
        self.read_upto: dict[str, int] = defaultdict(lambda: -1)

    def create_schema(self, _: Any) -> None:
        pass

    def create(self, _: Any, table: str, __: Any) -> None:
        self.commits.setdefault(table, [[]])

    def create_view(self, _: Any, view: str, table: str, __: Any) -> None:
        assert table in self.commits
        self.commits[view] = []

    def declare(self, spark: Any, table: str, layout: Layout) -> list[str]:
        try:
            spark.sql(f"ALTER TABLE {table} SET TAGS {layout.storage.tags}")
        except PySparkException as error:
            return [str(error)]
        return []

    def drop(self, _: Any, table: str) -> None:
        self.commits.pop(table, None)

    drop_view = drop

    def exists(self, _: Any, table: str) -> bool:
        return table in self.commits

    def columns(self, _: Any, __: str) -> tuple[str, ...]:
        return ("key", "value")

    def describe(self, _: Any, table: str) -> Description | None:
        return Description("MANAGED", "delta", "", f"[{CHANGE_FEED}=true]") if table in self.commits else None

    def policies(self, _: Any, __: str) -> tuple[str, ...]:
        return ()

    def newest(self, _: Any, table: str) -> Commit:
        return Commit(len(self.commits[table]) - 1, NOW)

    def append(self, _: Any, rows: pa.Table, table: str, transaction: Transaction | None = None) -> None:
        if transaction is not None:
            seen = (table, transaction.app_id)
            if self.transactions.get(seen, -1) >= transaction.version:
                return
            self.transactions[seen] = transaction.version
        self.commits[table].append([("insert", row["key"], row["value"]) for row in rows.to_pylist()])

    def merge(self, _: Any, rows: pa.Table, table: str, __: Any) -> Merged:
        before, changes, changed = self.at(table), list[Change](), 0
        for row in rows.to_pylist():
            key, new, old = row["key"], row["value"] if row["keep"] else None, before.get(row["key"])
            kinds = ("insert", "delete") if old is None or new is None else ("update_postimage", "update_preimage")
            if new != old:
                changed += 1
                changes += [(kinds[0], key, new)] if new is not None else []
                changes += [(kinds[1], key, old)] if old is not None else []
        self.commits[table].append(changes)
        return Merged(changed)

    def at(self, table: str, version: int | None = None) -> dict[str, str]:
        rows: dict[str, str] = {}
        for changes in self.commits[table][: None if version is None else version + 1]:
            for kind, key, value in changes:
                if kind == "delete":
                    rows.pop(key)
                elif kind != "update_preimage":
                    rows[key] = value
        return rows

    def read(self, _: Any, table: str, version: int | None = None) -> FakeRows:
        commits = self.commits[table][: None if version is None else version + 1]
        if all(kind == "insert" for changes in commits for kind, *_ in changes):  # a key may have several rows
            return FakeRows([{"key": key, "value": value} for changes in commits for _, key, value in changes])
        return FakeRows([{"key": key, "value": value} for key, value in self.at(table, version).items()])

    def look_up(self, _: Any, table: str, texts: Mapping[str, Sequence[str]]) -> pa.Table:
        return pa.Table.from_pylist([{"key": key} for key in self.at(table) if key in texts["key"]])

    def changes(self, _: Any, table: str, first: int, last: int) -> FakeRows:
        return FakeRows(
            [
                {"_change_type": kind, "key": key, "value": value, "_commit_version": version}
                for version in range(first, last + 1)
                for kind, key, value in self.commits[table][version]
            ]
        )

    def appended_rows(self, spark: Any, table: str) -> FakeRows | None:
        return self.changes(spark, table, 0, self.newest(spark, table).version)

    def stream(self, _: Any, table: str, first: int) -> FakeStream:
        return FakeStream(self, table, first)


@dataclass
class FakeStream:
    """A stream over a change feed, its writer and its query in one."""

    tables: FakeTables
    table: str
    first: int
    checkpoint: str = ""
    handle: Callable[[Any, int], None] = field(default=lambda *_: None)
    ends: bool = False
    rows: int = 0

    @property
    def writeStream(self) -> FakeStream:  # noqa: N802  Spark's name
        return self

    def foreachBatch(self, handle: Callable[[Any, int], None]) -> FakeStream:  # noqa: N802  Spark's name
        self.handle = handle
        return self

    def trigger(self, *, availableNow: bool = False, processingTime: str = "") -> FakeStream:  # noqa: ARG002, N803
        self.ends = availableNow
        return self

    def option(self, _: str, value: str) -> FakeStream:
        self.checkpoint = value
        return self

    def start(self) -> FakeStream:
        if self.ends:
            self._process()
        return self

    def _process(self) -> None:
        first = max(self.tables.read_upto[self.checkpoint] + 1, self.first)
        newest = self.tables.newest(None, self.table).version
        changes = self.tables.changes(None, self.table, first, newest).rows
        self.tables.read_upto[self.checkpoint] = newest
        if changes:
            self.rows += len(changes)
            self.handle(FakeRows(changes, self.tables.spark), newest)

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802  Spark's name
        self._process()
        return [{"sources": [{"numInputRows": self.rows}]}]

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "Waiting for data to arrive"}

    def awaitTermination(self, _: int) -> bool:  # noqa: N802  Spark's name
        return self.ends

    def exception(self) -> Exception | None:
        return None

    def stop(self) -> None:
        pass


def bench_on(
    folder: Path,
    tables: type[FakeTables] = FakeTables,
    namespace: Namespace | None = None,
    sql: Mapping[str, Sequence[Any] | Exception] | None = None,
) -> Bench:
    spark: Any = FakeSpark(sql)
    delta: Any = tables(namespace or LocalNamespace(folder, "doctor", "doctor"), spark)
    return Bench(spark, delta, patience=0.5, every=0.02)


def answer_of(bench: Bench, *names: str) -> Answer:
    """The answer of the last of some probes, which are asked in their order after the schema and its tables."""
    probes = {probe.name: probe for probe in (SCHEMA, *PROBES, *IN_CATALOG, *files.PROBES, *streams.PROBES)}
    *_, last = [probes[name].answer(bench, 60) for name in ("schema", "create", *names)]
    return last
