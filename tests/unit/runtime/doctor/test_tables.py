from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.storage.namespace import UnityNamespace
from kaspr_delta.storage.tables import Merged
from tests.unit.runtime.doctor.fake import Change, FakeRows, FakeTables, answer_of, bench_on, with_faults


def without_transaction(tables: FakeTables, _: Any, rows: pa.Table, table: str, *__: Any) -> None:
    FakeTables.append(tables, _, rows, table)


def deletes_nothing(tables: FakeTables, _: Any, rows: pa.Table, table: str, __: Any) -> Merged:
    return FakeTables.merge(tables, _, rows.filter(rows["keep"]), table, __)


def counts_all_rows(tables: FakeTables, _: Any, rows: pa.Table, table: str, __: Any) -> Merged:
    FakeTables.merge(tables, _, rows, table, __)
    return Merged(rows.num_rows)


def finds_all_keys(tables: FakeTables, _: Any, table: str, __: Any) -> pa.Table:
    return pa.Table.from_pylist([{"key": key} for key in tables.at(table)])


def begins_too_early(tables: FakeTables, _: Any, table: str, first: int, last: int) -> FakeRows:
    return FakeTables.changes(tables, _, table, first - 1, last)


def has_only_inserts(tables: FakeTables, *given: Any) -> FakeRows:
    rows = FakeTables.changes(tables, *given).rows
    return FakeRows([row for row in rows if row["_change_type"] == "insert"])


def reads_the_newest_version(tables: FakeTables, _: Any, table: str, *__: Any) -> FakeRows:
    return FakeTables.read(tables, _, table)


def gives_all_rows_the_newest_version(tables: FakeTables, spark: Any, table: str) -> FakeRows:
    rows = tables.changes(spark, table, 0, tables.newest(spark, table).version).rows
    return FakeRows([{**row, "_commit_version": len(tables.commits[table])} for row in rows])


def refused(privilege: str) -> PermissionError:
    return PermissionError(f"User does not have {privilege}")


def lost(*_: Any) -> None:
    pass


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
        ("schema", {"create_schema": refused("CREATE SCHEMA")}, "User does not have CREATE SCHEMA"),
        ("create", {"create": refused("CREATE TABLE")}, "User does not have CREATE TABLE"),
        ("create", {"create_view": refused("CREATE TABLE")}, "User does not have CREATE TABLE"),
        ("append", {"append": refused("MODIFY")}, "User does not have MODIFY"),
        ("append", {"append": lost}, "3 appends made 0 commits"),
        ("transaction", {"append": without_transaction}, "of transactions 1, 1 and 2 the table has 1, 1, 2"),
        ("transaction", {"append": lost}, "the table has none"),
        ("merge", {"merge": deletes_nothing}, "'deleted': '1'"),
        ("merge", {"merge": counts_all_rows}, "counted 3, and the same again 3, not 3 and 0"),
        ("look-up", {"look_up": finds_all_keys}, "a look-up of one key found 2 rows"),
        ("change feed", {"changes": begins_too_early}, "the feed of two versions has"),
        ("change feed", {"changes": has_only_inserts}, "the feed of two versions has"),
        ("pinned version", {"read": reads_the_newest_version}, "was read with the rows ['later', 'pinned']"),
    ],
)
def test_a_table_with_a_fault_is_a_problem(tmp_path: Path, name: str, fault: dict[str, Any], seen: str) -> None:
    answer = answer_of(bench_on(tmp_path, with_faults(FakeTables, **fault)), name)
    assert (answer.grade, seen in answer.seen) == ("problem", True), answer
    assert answer.effect


@pytest.mark.parametrize("fault", [lost, gives_all_rows_the_newest_version])
def test_rows_without_the_versions_of_their_commits_are_a_note(tmp_path: Path, fault: Any) -> None:
    answer = answer_of(bench_on(tmp_path, with_faults(FakeTables, appended_rows=fault)), "row tracking")
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
    bench.delta.commits["kaspr_doctor_rows"].append(change)  # type: ignore[attr-defined]  # a fake
    (bench.folder / "ends").mkdir(parents=True)
    answer_of(bench, "merge")
    assert "left" not in bench.stored("kaspr_doctor_rows")
    assert not bench.folder.exists()
