from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.storage.namespace import UnityNamespace
from kaspr_delta.storage.tables import Merged, Transaction
from tests.unit.runtime.doctor.fake import Change, FakeRows, FakeTables, answer_of, bench_on


class TransactionsAreIgnored(FakeTables):
    def append(self, _: Any, rows: pa.Table, table: str, transaction: Transaction | None = None) -> None:  # noqa: ARG002
        super().append(_, rows, table)


class AppendsAreLost(FakeTables):
    def append(self, *_: Any) -> None:
        pass


class AppendsAreRefused(FakeTables):
    def append(self, *_: Any) -> None:
        raise PermissionError("User does not have MODIFY")


class TablesAreRefused(FakeTables):
    def create(self, *_: Any) -> None:
        raise PermissionError("User does not have CREATE TABLE")


class ViewsAreRefused(FakeTables):
    def create_view(self, *_: Any) -> None:
        raise PermissionError("User does not have CREATE TABLE")


class TheSchemaIsRefused(FakeTables):
    def create_schema(self, _: Any) -> None:
        raise PermissionError("User does not have CREATE SCHEMA")


class MergesDeleteNothing(FakeTables):
    def merge(self, _: Any, rows: pa.Table, table: str, __: Any) -> Merged:
        return super().merge(_, rows.filter(rows["keep"]), table, __)


class MergesCountAllRows(FakeTables):
    def merge(self, _: Any, rows: pa.Table, table: str, __: Any) -> Merged:
        super().merge(_, rows, table, __)
        return Merged(rows.num_rows)


class LookUpsFindAll(FakeTables):
    def look_up(self, _: Any, table: str, __: Any) -> pa.Table:
        return pa.Table.from_pylist([{"key": key} for key in self.at(table)])


class FeedsBeginTooEarly(FakeTables):
    def changes(self, _: Any, table: str, first: int, last: int) -> FakeRows:
        return super().changes(_, table, first - 1, last)


class FeedsHaveOnlyInserts(FakeTables):
    def changes(self, _: Any, table: str, first: int, last: int) -> FakeRows:
        rows = super().changes(_, table, first, last).rows
        return FakeRows([row for row in rows if row["_change_type"] == "insert"])


class OnlyTheNewestVersionIsRead(FakeTables):
    def read(self, _: Any, table: str, version: int | None = None) -> FakeRows:  # noqa: ARG002
        return super().read(_, table)


class RowsAreNotTracked(FakeTables):
    def appended_rows(self, *_: Any) -> None:
        return None


class AllRowsHaveTheNewestVersion(FakeTables):
    def appended_rows(self, spark: Any, table: str) -> FakeRows:
        rows = self.changes(spark, table, 0, self.newest(spark, table).version).rows
        return FakeRows([{**row, "_commit_version": len(self.commits[table])} for row in rows])


@pytest.mark.parametrize(
    "name",
    [
        *("schema", "create", "append", "transaction", "merge", "look-up", "change feed", "pinned version"),
        "row tracking",
    ],
)
def test_a_warehouse_that_does_what_the_engine_relies_on_is_ok(tmp_path: Path, name: str) -> None:
    answer = answer_of(bench_on(tmp_path), name)
    assert answer.grade == "ok", answer
    assert answer.effect


@pytest.mark.parametrize(
    ("name", "fault", "seen"),
    [
        ("schema", TheSchemaIsRefused, "User does not have CREATE SCHEMA"),
        ("create", TablesAreRefused, "User does not have CREATE TABLE"),
        ("create", ViewsAreRefused, "User does not have CREATE TABLE"),
        ("append", AppendsAreRefused, "User does not have MODIFY"),
        ("append", AppendsAreLost, "3 appends made 0 commits"),
        ("transaction", TransactionsAreIgnored, "of transactions 1, 1 and 2 the table has 1, 1, 2"),
        ("transaction", AppendsAreLost, "the table has none"),
        ("merge", MergesDeleteNothing, "'deleted': '1'"),
        ("merge", MergesCountAllRows, "counted 3, and the same again 3, not 3 and 0"),
        ("look-up", LookUpsFindAll, "a look-up of one key found 2 rows"),
        ("change feed", FeedsBeginTooEarly, "the feed of two versions has"),
        ("change feed", FeedsHaveOnlyInserts, "the feed of two versions has"),
        ("pinned version", OnlyTheNewestVersionIsRead, "was read with the rows ['later', 'pinned']"),
    ],
)
def test_a_table_with_a_fault_is_a_problem(tmp_path: Path, name: str, fault: type[FakeTables], seen: str) -> None:
    answer = answer_of(bench_on(tmp_path, fault), name)
    assert answer.grade == "problem"
    assert seen in answer.seen
    assert answer.effect


@pytest.mark.parametrize("fault", [RowsAreNotTracked, AllRowsHaveTheNewestVersion])
def test_rows_without_the_versions_of_their_commits_are_a_note(tmp_path: Path, fault: type[FakeTables]) -> None:
    answer = answer_of(bench_on(tmp_path, fault), "row tracking")
    assert (answer.grade, "deleted and applied again" in answer.effect) == ("note", True)


def test_a_schema_is_not_made_without_the_application_that_it_is_made_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for application, grade in (("", "problem"), ("shop", "ok")):
        bench = bench_on(tmp_path, namespace=UnityNamespace("main", "shop", str(tmp_path), application=application))
        monkeypatch.setattr(bench.spark, "databaseExists", lambda _: False)
        assert answer_of(bench, "schema").grade == grade


def test_leftovers_of_a_killed_doctor_are_removed_first(tmp_path: Path) -> None:
    bench = bench_on(tmp_path)
    answer_of(bench, "append")
    change: list[Change] = [("insert", "left", "over")]
    bench.delta.commits["_kaspr_doctor_rows"].append(change)  # type: ignore[attr-defined]  # a fake
    (bench.folder / "ends").mkdir(parents=True)
    answer_of(bench, "merge")
    assert "left" not in bench.stored("_kaspr_doctor_rows")
    assert not bench.folder.exists()
