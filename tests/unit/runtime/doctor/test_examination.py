from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from kaspr_delta.errors import AlreadyRunningError
from kaspr_delta.grant import Grant
from kaspr_delta.runtime.doctor import platform
from kaspr_delta.runtime.doctor.bench import LAYOUTS, ROWS, Bench
from kaspr_delta.runtime.doctor.examination import ANOTHER, CLEANED, FIRST, SECOND_TASK, Wanted, examine, probes_of
from kaspr_delta.runtime.doctor.probe import Answer, Probe, answers
from kaspr_delta.runtime.doctor.tables import of_own, of_tags
from kaspr_delta.storage.namespace import LocalNamespace, UnityNamespace
from tests.documented import ROOT
from tests.manifests import plan_of as shop
from tests.unit.runtime.doctor.fake import FakeRows, FakeTables, bench_on, with_faults
from tests.unit.runtime.doctor.test_endpoints import bound_plan
from tests.unit.runtime.doctor.test_identities import ALL, SHOWN
from tests.unit.runtime.doctor.test_sources import SOURCE, WithSource, plan_of

GRANTS = [Grant("readers", ("SELECT",))]


def examined(bench: Bench, plan: Any = None, grants: Sequence[Grant] = (), seconds: float = 60) -> dict[str, Answer]:
    return {probe.name: answer for probe, answer in examine(bench, Wanted(plan, grants), seconds)}


@pytest.fixture
def in_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench on a catalog, where nobody asks an index of packages and no lease is waited for."""
    monkeypatch.setattr(platform, "IN_CATALOG", ())
    return bench_on(tmp_path, WithSource, UnityNamespace("main", "shop", str(tmp_path / "volume"), None, "shop"))


def test_a_warehouse_that_does_all_has_no_problem_and_nothing_is_left(tmp_path: Path) -> None:
    bench = bench_on(tmp_path)
    found = examined(bench)
    assert {name: answer for name, answer in found.items() if answer.grade != "ok" and name != "versions"} == {}
    assert list(found)[-1] == "clean-up"
    assert bench.delta.commits == {}  # type: ignore[attr-defined]  # a fake
    assert not bench.folder.exists()


def test_a_probe_that_fails_stops_no_other_and_all_is_removed(tmp_path: Path) -> None:
    bench = bench_on(tmp_path, with_faults(FakeTables, append=PermissionError("refused")))
    found = examined(bench)
    assert {found[name].grade for name in ("append", "merge", "stream", "lease")} == {"problem"}
    assert (found["volume"].grade, found["clean-up"].grade) == ("ok", "ok")
    assert not bench.folder.exists()


def test_tables_that_cannot_be_removed_are_a_note_and_files_are_removed(tmp_path: Path) -> None:
    bench = bench_on(tmp_path, with_faults(FakeTables, drop=PermissionError("not the owner")))
    bench.folder.mkdir(parents=True)
    found = CLEANED.answer(bench, 9)
    assert (found.grade, found.seen) == ("note", "PermissionError: not the owner")
    assert not bench.folder.exists()


def test_the_probes_together_have_a_limit_of_time(tmp_path: Path) -> None:
    hangs = threading.Event()
    probes = [
        Probe("hangs", "?", lambda _: str(hangs.wait(9)), "", "goes on"),
        Probe("late", "?", lambda _: "never asked", "", ""),
    ]
    first, second = (answer for _, answer in answers(probes, bench_on(tmp_path), 0.1))
    hangs.set()
    assert (first.grade, first.effect) == ("problem", "goes on")
    assert first.seen.startswith("no answer in 1")
    assert (second.grade, second.seen) == ("problem", "not asked: no time was left")


def test_a_second_doctor_sees_the_first_and_probes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AlreadyRunningError("process 7 on host worker keeps renewing it")

    monkeypatch.setattr(LocalNamespace, "resource_lock", refuse)
    bench = bench_on(tmp_path)
    bench.folder.mkdir(parents=True)
    assert examined(bench) == {ANOTHER.name: Answer("ok", "process 7 on host worker keeps renewing it", ANOTHER.then)}
    assert bench.folder.exists()  # it may be the first one's


def test_of_two_doctors_that_overlap_each_says_so(tmp_path: Path) -> None:
    bench, refused = bench_on(tmp_path), dict[str, Answer]()

    class Overlapped(FakeTables):
        def append(self, *given: Any) -> None:
            if not refused:
                refused.update(examined(bench_on(tmp_path)))
            super().append(*given)

    found = {probe.name: answer for probe, answer in examine(bench_on(tmp_path, Overlapped), Wanted(in_pair=True), 60)}
    assert list(refused) == [ANOTHER.name]
    assert found[SECOND_TASK.name] == Answer("ok", "it was", SECOND_TASK.then)
    assert not bench.marks.exists()


def test_a_doctor_whose_second_one_does_not_come_says_that_nothing_is_known(tmp_path: Path) -> None:
    bench = replace(bench_on(tmp_path), patience=0.2)
    found = {probe.name: answer for probe, answer in examine(bench, Wanted(in_pair=True), 60)}
    assert found[SECOND_TASK.name] == Answer("note", "no second task was refused in 200 ms more", SECOND_TASK.otherwise)
    assert SECOND_TASK.name not in examined(bench)


def test_a_second_doctor_that_took_the_lease_is_a_problem_after_all_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def lost(*_: Any) -> Iterator[None]:
        yield
        raise AlreadyRunningError("doctor may run twice")

    monkeypatch.setattr(LocalNamespace, "resource_lock", lost)
    found = examined(bench_on(tmp_path))
    assert found["merge"].grade == "ok"
    assert found[ANOTHER.name] == Answer("problem", "doctor may run twice", ANOTHER.otherwise)


def test_a_catalog_out_of_reach_of_its_volume_is_probed_without_a_lease(tmp_path: Path) -> None:
    bench = bench_on(tmp_path, namespace=UnityNamespace("main", "shop", "volume", None, "shop"))
    found = examined(bench)
    assert (found["append"].grade, found["volume"].grade) == ("ok", "problem")


def test_sources_are_probed_for_manifests_and_grants_where_some_are_given(in_catalog: Bench) -> None:
    found = examined(in_catalog, plan_of(SOURCE), GRANTS)
    assert found[f"source {SOURCE}"].grade == "ok"
    assert {"grants", f"policies of {SOURCE}", "row tracking"} <= set(found)


TAGGED = "KasprTable/orders: {storage: {tags: {domain: sales}}}"
TWICE_TAGGED = f"{TAGGED}\nKasprTable/items: {{storage: {{tags: {{domain: stock}}}}}}"
REFUSED = PySparkException("[INSUFFICIENT_PERMISSIONS] not yours")
APPENDED = PySparkException("[DELTA_CANNOT_MODIFY_APPEND_ONLY] only appended")


@pytest.mark.parametrize(
    ("statements", "missing", "seen"),
    [
        ({}, None, "1 are there, and may be read and changed"),
        ({}, RuntimeError("[TABLE_OR_VIEW_NOT_FOUND] orders"), "0 are there, and may be read and changed"),
        ({}, RuntimeError("[INSUFFICIENT_PERMISSIONS] no SELECT"), "orders: RuntimeError: [INSUFFICIENT_PERMISSIONS]"),
        ({"DELETE FROM": REFUSED}, None, "orders: PySparkException: [INSUFFICIENT_PERMISSIONS] not yours"),
        ({"DELETE FROM": APPENDED}, None, "1 are there, and may be read and changed"),
    ],
)
def test_tables_that_another_identity_made_have_to_be_readable_and_writable(
    tmp_path: Path, statements: dict[str, Exception], missing: Exception | None, seen: str
) -> None:
    class Read(FakeTables):
        def read(self, _: Any, table: str, *__: Any) -> FakeRows:
            if table == "orders" and missing is None:
                return FakeRows([])
            raise RuntimeError("[TABLE_OR_VIEW_NOT_FOUND]") if missing is None or table != "orders" else missing

    bench = bench_on(tmp_path, Read, sql=statements)
    found = of_own(shop("shop", TAGGED)).answer(bench, 9)
    assert seen in found.seen
    assert found.grade == ("problem" if "INSUFFICIENT" in seen else "ok")
    tried = [] if missing else ["orders"]
    assert [one.split("`")[-2] for one in bench.spark.statements] == tried  # type: ignore[attr-defined]  # of the fake


@pytest.mark.parametrize(
    ("statements", "grade"),
    [
        ({}, "ok"),
        ({" SET TAGS": REFUSED}, "note"),
        ({"UNSET TAGS": REFUSED}, "note"),
        ({"UNSET TAGS": APPENDED}, "ok"),  # there is no such tag
    ],
)
def test_tags_of_the_account_and_of_tables_of_others_have_to_be_given(
    tmp_path: Path, statements: dict[str, Exception], grade: str
) -> None:
    bench = bench_on(tmp_path, sql=statements)
    (probe,) = of_tags(shop("shop", TWICE_TAGGED))
    assert probe.answer(bench, 9).seen.endswith("there is no table to be tagged, see the probe `create`")
    for table in (ROWS, "orders", "items"):
        bench.delta.create(bench.spark, table, LAYOUTS[ROWS])
    assert probe.answer(bench, 9).grade == grade
    tags = [one for one in bench.spark.statements if "TAGS" in one]  # type: ignore[attr-defined]  # of the fake
    given = sorted(one.partition(" TAGS ")[2] for one in tags if " SET TAGS" in one)
    assert given == ["(('domain', 'sales'),)", "(('domain', 'stock'),)"]
    assert [table in one for table in ("orders", "items") for one in tags if "UNSET" in one].count(True) == 2
    assert list(of_tags(shop("shop", "KasprTable/orders: {}"))) == []


def test_the_page_has_each_probe_with_its_sentences_and_the_permissions_each_privilege(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "databricks.md").read_text()
    permissions = page.partition("## Permissions")[2].partition("\n## ")[0]
    namespace = UnityNamespace("main", "shop", str(tmp_path), None, "shop")
    plan = replace(plan_of(SOURCE), topics=bound_plan(tmp_path).topics)
    plan = replace(plan, tables=(*plan.tables, *shop("shop", TAGGED).tables))
    shown = shop("shop", SHOWN)
    plan = replace(plan, tables=(*plan.tables, *shown.tables), web_views=shown.web_views)
    wanted = Wanted(plan, GRANTS, started_job="1", sql_warehouse="w1", identities=ALL)
    for probe in (*FIRST, *probes_of(bench_on(tmp_path, namespace=namespace), wanted), CLEANED, SECOND_TASK, ANOTHER):
        name = re.sub(r"(of|for|source) \S+$", r"\1 …", probe.name)
        assert f"| {name} | {probe.question} | {probe.then} | {probe.otherwise} |" in page
        if probe.needs:
            rows = "".join(line for line in permissions.splitlines() if line.endswith(f"| `{name}` |"))
            assert all(f"`{privilege}`" in rows for privilege in probe.needs), name
