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
