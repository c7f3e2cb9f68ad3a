"""The statements by which a run looks at tables of others."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.plan.names import INTERNAL_SCHEMA_MARK
from kaspr_delta.storage.layout import CHANNEL, RESOURCES, TOPIC
from kaspr_delta.storage.namespace import UnityNamespace, Warehouse
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.tables import Commit, Tables

DELTA = [("id", "string", ""), ("", "", ""), ("# Detailed Table Information", "", ""), ("Type", "MANAGED", "")]


class Session:
    """A session that counts what it is asked. It knows some tables; it refuses statements that begin with a text."""

    def __init__(self, *tables: str, refuses: str = "nothing") -> None:
        self.tables, self.refuses, self.asked = set(tables), refuses, list[str]()
        self.catalog = self

    def tableExists(self, name: str) -> bool:  # noqa: N802  Spark's name
        self.asked.append("exists")
        return name in self.tables

    def sql(self, statement: str) -> Any:
        verb, _, name = statement.rpartition(" ")
        self.asked.append(verb)
        if statement.startswith(self.refuses) or name not in self.tables:
            raise AnalysisException("no")
        return self

    def collect(self) -> list[Any]:
        return DELTA if self.asked[-1].startswith("DESCRIBE") else [("mask_mail", "COLUMN MASK")]


@pytest.fixture
def tables() -> Tables:
    return Tables(UnityNamespace("main", "shop", "v"))


def looked_at(tables: Tables, session: Any) -> tuple[bool, tuple[str, ...]]:
    return tables.describe(session, "c.s.t") is not None, tables.policies(session, "c.s.t")


def test_a_second_look_takes_one_statement(tables: Tables) -> None:
    session = Session("`c`.`s`.`t`")
    assert looked_at(tables, session) == (True, ("mask_mail",))
    assert session.asked == ["exists", "DESCRIBE TABLE EXTENDED", "SHOW EFFECTIVE POLICIES ON TABLE"]
    assert looked_at(tables, session) == (True, ("mask_mail",))
    assert session.asked[3:] == ["DESCRIBE TABLE EXTENDED"]


def test_a_table_that_is_missing_or_gone_has_no_description(tables: Tables) -> None:
    assert tables.describe(missing := Session(), "c.s.t") is None  # type: ignore[arg-type]
    assert missing.asked == ["exists"]
    looked_at(tables, Session("`c`.`s`.`t`"))
    assert tables.describe(Session(), "c.s.t") is None  # type: ignore[arg-type]


def test_a_table_that_may_not_be_described_is_an_error(tables: Tables) -> None:
    with pytest.raises(AnalysisException):
        tables.describe(Session("`c`.`s`.`t`", refuses="DESCRIBE"), "c.s.t")  # type: ignore[arg-type]


def test_where_policies_cannot_be_seen_there_are_none(tables: Tables, tmp_path: Any) -> None:
    session = Session("`c`.`s`.`t`", refuses="SHOW")
    assert looked_at(tables, session) == looked_at(tables, session) == (True, ())
    assert session.asked.count("SHOW EFFECTIVE POLICIES ON TABLE") == 1
    in_folder = Tables(Warehouse(str(tmp_path)).namespace("shop"))
    assert in_folder.policies(session, "c.s.t") == ()  # type: ignore[arg-type]
    assert tables.policies(session, "s3://bucket/t") == ()  # type: ignore[arg-type]


class Schemas:
    """A session whose catalog may have the schema, and whose first answers may break off."""

    def __init__(self, *, exists: bool, broken: int = 0) -> None:
        self.exists, self.broken, self.asked = exists, broken, list[str]()
        self.catalog = self

    def databaseExists(self, _: str) -> bool:  # noqa: N802  Spark's name
        self.asked.append("exists")
        return self.exists

    def sql(self, statement: str) -> Any:
        self.asked.append(" ".join(statement.split()[:2]))
        if statement.startswith("SHOW") and (not self.exists or self.broken):
            self.broken -= 1
            msg = "closed"
            raise RuntimeError(msg)
        return self

    def collect(self) -> list[dict[str, Any]]:
        return [{"tableName": "orders", "isTemporary": False}]


@pytest.mark.parametrize(
    ("session", "asked"),
    [
        (Schemas(exists=True), ["SHOW TABLES"]),
        (Schemas(exists=True, broken=2), ["SHOW TABLES", "exists", "SHOW TABLES", "SHOW TABLES"]),
        (Schemas(exists=False), ["SHOW TABLES", "exists", "CREATE SCHEMA", "CREATE VOLUME"]),
    ],
    ids=["there", "broken off", "missing"],
)
def test_tables_of_a_schema_are_listed_by_one_statement_if_it_is_there(
    tables: Tables, session: Any, asked: list[str]
) -> None:
    tables.create_schema(session)
    assert session.asked == asked


class BesideResults:
    """A catalog with a channel beside results, as an earlier version kept it. ``named`` is the schema of the mark."""

    def __init__(self, internal: list[str], named: str = "`main`.`inner`") -> None:
        self.tables = {"shop": ["orders", "channel__priced", INTERNAL_SCHEMA_MARK], "inner": internal}
        self.named, self.asked, self.catalog = named, list[str](), self

    def databaseExists(self, _: str) -> bool:  # noqa: N802  Spark's name
        return True

    def sql(self, statement: str) -> Any:
        self.asked.append(statement)
        listed = re.fullmatch(r"SHOW TABLES IN `main`\.`(\w+)`", statement)
        rows: list[Any] = [{"schema": self.named}]
        if listed:
            rows = [{"tableName": one, "isTemporary": False} for one in self.tables[listed[1]]]
        return SimpleNamespace(collect=lambda: rows)


@pytest.mark.parametrize(
    ("internal", "message"),
    [
        ([RESOURCES], "RENAME TO `main`.`inner`.`channel__priced`"),
        ([RESOURCES, "channel__priced"], "in two schemas, `main`.`shop`.`channel__priced` and"),
    ],
)
def test_a_channel_that_an_earlier_version_kept_beside_results_waits_for_its_owner(
    tmp_path: Path, internal: list[str], message: str
) -> None:
    delta = open_tables(UnityNamespace("main", "shop", str(tmp_path), internal_name="inner"))
    session: Any = BesideResults(internal)
    delta.create_schema(session)
    asked = list(session.asked)
    delta.create(session, "orders", TOPIC)
    with pytest.raises(SetupError, match=message):
        delta.create(session, "channel__priced", CHANNEL)
    assert session.asked == asked == ["SHOW TABLES IN `main`.`shop`", "SHOW TABLES IN `main`.`inner`"]
    delta.drop(session, "channel__priced")
    dropped = [one for one in session.asked if one.startswith("DROP")]
    both = [f"DROP TABLE IF EXISTS `main`.`{schema}`.`channel__priced`" for schema in ("inner", "shop")]
    assert dropped == both[-len(internal) :], "the state that a purge leaves would come back"
    session.asked.clear()
    delta.create(session, "channel__priced", CHANNEL)
    assert [one.split("(")[0].strip() for one in session.asked] == [
        "CREATE TABLE IF NOT EXISTS `main`.`inner`.`channel__priced`"
    ]


def test_internal_tables_of_another_schema_are_not_made_anew(tmp_path: Path) -> None:
    delta = open_tables(UnityNamespace("main", "shop", str(tmp_path), internal_name="inner"))
    begun: Any = BesideResults([])
    delta.create_schema(begun)
    other: Any = BesideResults([], named="`main`.`other`")
    with pytest.raises(UsageError, match=r"are in `main`\.`other`, and do not move"):
        delta.create_schema(other)


def test_a_batch_pins_the_versions_of_its_streams_start_unless_it_has_read_further(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch pins a version before its changes, or before one that an earlier batch saw."""
    no_spark: Any = None
    at, newest = datetime(2026, 1, 1, tzinfo=timezone.utc), 9
    monkeypatch.setattr(Tables, "newest", lambda *_: Commit(newest, at))
    assert tables.pin(no_spark, "orders", 1).version == 9
    stream = tables.pinning({"orders": Commit(6, at), "products": Commit(4, at)})
    assert [stream.pin(no_spark, "orders", upto).version for upto in (-1, 5, 6)] == [6, 6, 6]
    assert stream.pin(no_spark, "orders", 7).version == 9
    newest = 11
    assert [stream.pin(no_spark, "orders", upto).version for upto in (-1, 9)] == [9, 9]
    assert stream.pin(no_spark, "orders", None).version == 11
    assert stream.pin(no_spark, "products", 4).version == 4
    assert tables.pin(no_spark, "orders", 1).version == 11
