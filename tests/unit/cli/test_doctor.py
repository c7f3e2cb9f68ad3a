from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.cli import task
from kaspr_delta.runtime.doctor.examination import ANOTHER
from kaspr_delta.runtime.doctor.probe import Answer, Probe
from tests.documented import ROOT
from tests.unit.cli.conftest import Kaspr


def java(folder: Path, says: str) -> Path:
    """A folder with a ``bin/java`` that prints this text as its version."""
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    command.chmod(0o755)
    return folder


def lines(text: str) -> dict[str, str]:
    """The printed line of each check, by its name."""
    return {line[9:].split(":", 1)[0]: line for line in text.splitlines()}


NO_JDK = "install a JDK 17"


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('openjdk version "17.0.11" 2024-04-16', "version 17"),
        ('java version "21.0.1"', "version 21"),
        ('openjdk version "25"', "version 25"),
        ('java version "1.8.0_292"', f"is Java 8, and Spark needs 17 or newer: {NO_JDK}"),
        ('openjdk version "11.0.2"', f"is Java 11, and Spark needs 17 or newer: {NO_JDK}"),
        ("not a java at all", f"does not tell its version: {NO_JDK}"),
    ],
)
@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_a_java_that_spark_runs_on_is_ok_and_another_is_reported_with_the_remedy(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, says: str, message: str, by: str
) -> None:
    home = java(tmp_path / "jdk", says)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(by, str(home) if by == "JAVA_HOME" else f"{home / 'bin'}:/usr/bin:/bin")
    answer = kaspr("doctor", "--warehouse", tmp_path / "wh")
    is_ok = message.startswith("version")
    assert answer.code == (0 if is_ok else 1)
    assert lines(answer.out)["java"].startswith("ok       java: " if is_ok else "missing  java: ")
    assert message in lines(answer.out)["java"]
    assert not (tmp_path / "wh").exists()


def test_a_missing_java_is_reported_without_a_stack_trace(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for home, message in (("", "Java is not installed, and local Spark needs it"), (tmp_path, f"{tmp_path}, but")):
        monkeypatch.setenv("JAVA_HOME", str(home))
        answer = kaspr("doctor", "--warehouse", tmp_path)
        assert answer.code == 1
        assert message in lines(answer.out)["java"]
        assert "Traceback" not in answer.err


def test_a_warehouse_below_a_file_is_reported_with_the_remedy(kaspr: Kaspr, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = kaspr("--warehouse", tmp_path / "file" / "wh", "doctor")
    assert answer.code == 1
    assert "choose another folder with --warehouse" in lines(answer.out)["warehouse"]


def test_the_warehouse_of_the_environment_is_checked(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(tmp_path / "mine"))
    assert lines(kaspr("doctor").out)["warehouse"] == f"ok       warehouse: {tmp_path / 'mine'} can be written"


def test_packages_that_are_missing_are_named_with_the_remedy(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    answer = kaspr("doctor", "--warehouse", tmp_path)
    assert answer.code == 1
    for name in ("pyspark", "delta-spark"):
        assert lines(answer.out)[name] == f"missing  {name}: not installed: pip install 'kaspr-delta[local]'"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """The answers that the probes give; no Spark is started."""
    answers: list[Answer] = []

    def examine(*_: Any) -> Iterator[tuple[Probe, Answer]]:
        yield from ((Probe(f"probe {at}", "why?", lambda _: "", "", ""), one) for at, one in enumerate(answers))

    monkeypatch.setattr("kaspr_delta.runtime.doctor.examination.examine", examine)
    monkeypatch.setattr("kaspr_delta.runtime.session.spark_session", lambda _: None)
    return answers


OK, NOTE, PROBLEM = Answer("ok", "5 ms", "goes on"), Answer("note", "no", "gets by"), Answer("problem", "no", "stops")


@pytest.mark.parametrize(("answers", "code"), [([OK], 0), ([OK, NOTE], 1)])
def test_a_note_is_a_problem_too_where_that_is_wanted(
    kaspr: Kaspr, asked: list[Answer], tmp_path: Path, *, answers: list[Answer], code: int
) -> None:
    asked += answers
    assert kaspr("doctor", "--probe", "--strict", "--warehouse", tmp_path).code == code


@pytest.mark.parametrize(("answers", "code"), [([OK], 0), ([OK, NOTE], 0), ([NOTE, PROBLEM, OK], 1)])
def test_answers_of_probes_are_printed_and_kept_in_a_file_and_a_problem_is_exit_code_1(
    kaspr: Kaspr, asked: list[Answer], tmp_path: Path, *, answers: list[Answer], code: int
) -> None:
    asked += answers
    text = kaspr("doctor", "--probe", "--warehouse", tmp_path)
    printed = kaspr("doctor", "--probe", "--warehouse", tmp_path, "-o", "json")
    assert (text.code, printed.code) == (code, code)
    assert all(part in text.out for one in answers for part in (one.seen, one.effect))
    found = json.loads(printed.out)
    assert found == json.loads((tmp_path / "doctor.json").read_text())
    assert found["warehouse"] == str(tmp_path)
    assert found["answers"][-1] == {
        "probe": f"probe {len(answers) - 1}",
        "question": "why?",
        "answer": answers[-1].grade,
        "seen": answers[-1].seen,
        "effect": answers[-1].effect,
    }
    assert [file.name for file in tmp_path.iterdir()] == ["doctor.json"]


def test_a_task_of_a_job_probes_its_catalog_without_being_asked_and_raises_if_there_is_a_problem(
    kaspr: Kaspr, asked: list[Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.0")
    monkeypatch.setenv("PATH", "")  # Java is not here, but where Spark is
    warehouse = f"unity://main.shop/{tmp_path}"
    arguments = ["kaspr-delta-task", "doctor", str(ROOT / "bundles" / "order-system"), "--warehouse", warehouse]
    asked.append(OK)
    monkeypatch.setattr("sys.argv", arguments)
    task()
    assert "probe 0" in (tmp_path / "doctor.json").read_text()
    asked.append(PROBLEM)
    with pytest.raises(SystemExit, match="1"):
        task()
    assert kaspr("doctor", "--warehouse", warehouse).code == 1
    asked.clear()
    assert kaspr("doctor", "--warehouse", tmp_path / "folder").out.count("probe 0") == 0


def test_a_folder_that_cannot_be_written_is_no_error_of_the_doctor(
    kaspr: Kaspr, asked: list[Answer], tmp_path: Path
) -> None:
    asked.append(OK)
    answer = kaspr("doctor", "--probe", "--warehouse", f"unity://main.shop/{tmp_path}/gone")
    assert (answer.code, "doctor.json cannot be written" in answer.err) == (0, True)


def test_the_answers_of_the_first_of_two_doctors_are_kept(
    kaspr: Kaspr, asked: list[Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doctor.json").write_text("{}")
    asked.append(OK)
    monkeypatch.setattr("kaspr_delta.runtime.doctor.examination.ANOTHER", replace(ANOTHER, name="probe 0"))
    assert kaspr("doctor", "--probe", "--warehouse", tmp_path).code == 0
    assert (tmp_path / "doctor.json").read_text() == "{}"


def test_wrong_options_are_found_before_spark_starts(kaspr: Kaspr, tmp_path: Path) -> None:
    for option, value in (("--within", "soon"), ("--grant", "readers=FLY")):
        answer = kaspr("doctor", "--probe", "--warehouse", tmp_path, option, value)
        assert (answer.code, value in answer.err) == (2, True)
