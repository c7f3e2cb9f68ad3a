from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.grant import Grant
from kaspr_delta.runtime.doctor import platform
from kaspr_delta.runtime.doctor.probe import Answer
from kaspr_delta.runtime.versions import Versions
from kaspr_delta.storage.namespace import Namespace, UnityNamespace
from tests.unit.runtime.doctor.fake import bench_on

READERS = Grant("readers", ("USE SCHEMA", "SELECT"))


def grants_answer(
    folder: Path,
    *,
    held: tuple[str, ...] = (),
    mine: tuple[str, ...] = (),
    owner: str = "x",
    managers: tuple[str, ...] = (),
    member: bool = False,
    internal: str | None = None,
) -> Answer:
    namespace: Namespace = UnityNamespace("main", "shop", str(folder), None, "shop", internal)
    sql: dict[str, list[Any]] = {
        "SHOW GRANTS ON SCHEMA": [{"Principal": one, "ActionType": "MANAGE"} for one in managers],
        "is_account_group_member": [{"member": member}],
        "current_user": [{"name": "me"}],
        "DESCRIBE SCHEMA EXTENDED": [("Catalog Name", "main"), ("Owner", owner)],
        "SHOW GRANTS `readers`": [{"Principal": "readers", "ActionType": privilege} for privilege in held],
        "SHOW GRANTS `me`": [{"Principal": "me", "ActionType": privilege} for privilege in mine],
    }
    return platform.of_grants([READERS], [READERS] if internal else []).answer(
        bench_on(folder, namespace=namespace, sql=sql), 9
    )


def test_grants_that_are_there_need_nobody_who_may_grant(tmp_path: Path) -> None:
    answer = grants_answer(tmp_path, held=("USE_SCHEMA", "SELECT"))
    assert (answer.grade, answer.seen) == ("ok", "all there")


def test_grants_on_the_schema_of_internal_tables_are_looked_at_too(tmp_path: Path) -> None:
    answer = grants_answer(tmp_path, held=("SELECT",), owner="me", internal="inside")
    assert answer.seen == "missing: USE SCHEMA of readers on `main`.`shop`; USE SCHEMA of readers on `main`.`inside`"


@pytest.mark.parametrize(("owner", "managers"), [("admins", ()), ("x", ("admins",))])
def test_a_group_of_this_user_may_own_or_manage_the_schema(
    tmp_path: Path, owner: str, managers: tuple[str, ...]
) -> None:
    assert grants_answer(tmp_path, owner=owner, managers=managers, member=True).grade == "ok"
    assert grants_answer(tmp_path, owner=owner, managers=managers).grade == "problem"


@pytest.mark.parametrize(("mine", "owner"), [((), "me"), (("MANAGE",), "x")])
def test_missing_grants_are_ok_for_who_owns_or_manages_the_schema(
    tmp_path: Path, mine: tuple[str, ...], owner: str
) -> None:
    answer = grants_answer(tmp_path, held=("SELECT",), mine=mine, owner=owner)
    assert (answer.grade, answer.seen) == ("ok", "missing: USE SCHEMA of readers on `main`.`shop`")


def test_missing_grants_that_nobody_here_may_make_are_a_problem(tmp_path: Path) -> None:
    answer = grants_answer(tmp_path, mine=("USE SCHEMA",))
    assert answer.grade == "problem"
    assert answer.seen.endswith("neither owns nor manages the schema: USE SCHEMA, SELECT of readers on `main`.`shop`")


def test_versions_that_were_not_tried_together_are_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Versions, "with_spark", lambda _: Versions("4.2.0", "4.4.0", "3.11.7"))
    assert platform.VERSIONS.answer(bench_on(tmp_path), 9).grade == "ok"
    monkeypatch.setattr(Versions, "with_spark", lambda _: Versions("3.5.0", None, "3.9.1"))
    answer = platform.VERSIONS.answer(bench_on(tmp_path), 9)
    assert (answer.grade, "were never tried together" in answer.seen) == ("note", True)


@pytest.mark.parametrize(
    ("code", "errors", "grade", "seen"),
    [
        (0, "", "ok", "it has filelock"),
        (1, "WARNING: x\nERROR: No matching distribution found for filelock", "note", "ERROR: No matching"),
        (1, "", "note", "pip failed"),
    ],
)
def test_an_index_that_does_not_answer_is_a_note(  # noqa: PLR0917
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, errors: str, grade: str, seen: str
) -> None:
    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], code, "", errors)

    monkeypatch.setattr(subprocess, "run", run)
    (probe,) = platform.IN_CATALOG
    answer = probe.answer(bench_on(tmp_path), 9)
    assert (answer.grade, answer.seen.startswith(seen)) == (grade, True)
