from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    "says", ['openjdk version "17.0.11" 2024-04-16', 'java version "21.0.1"', 'openjdk version "25"']
)
def test_a_java_that_spark_runs_on_is_ok(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "jdk", says)))
    answer = kaspr("doctor", "--warehouse", tmp_path / "wh")
    assert answer.code == 0
    assert lines(answer.out)["java"].startswith("ok       java: version ")
    assert not (tmp_path / "wh").exists()


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('java version "1.8.0_292"', "is Java 8, and Spark needs 17 or newer: install a JDK 17"),
        ('openjdk version "11.0.2"', "is Java 11, and Spark needs 17 or newer: install a JDK 17"),
        ("not a java at all", "does not tell its version: install a JDK 17"),
    ],
)
def test_a_java_that_spark_does_not_run_on_is_reported_with_the_remedy(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, message: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "jdk", says)))
    answer = kaspr("doctor", "--warehouse", tmp_path)
    assert answer.code == 1
    assert lines(answer.out)["java"].startswith("missing  java: ")
    assert message in lines(answer.out)["java"]


def test_a_java_home_without_java_is_reported(kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    answer = kaspr("doctor", "--warehouse", tmp_path)
    assert answer.code == 1
    assert f"JAVA_HOME is {tmp_path}, but" in lines(answer.out)["java"]


def test_a_missing_java_is_reported_without_a_stack_trace(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = kaspr("doctor", "--warehouse", tmp_path)
    assert answer.code == 1
    assert "Java is not installed, and local Spark needs it" in lines(answer.out)["java"]
    assert "Traceback" not in answer.err


def test_java_on_the_path_is_found(kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(java(tmp_path / "jdk", 'openjdk version "17"') / "bin") + ":/usr/bin:/bin")
    assert lines(kaspr("doctor", "--warehouse", tmp_path).out)["java"] == "ok       java: version 17"


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
