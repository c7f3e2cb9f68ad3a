from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kaspr_delta.application import Application
from kaspr_delta.errors import NotFoundError
from tests.unit.cli.conftest import Kaspr

COMMANDS = ("demo", "validate", "plan", "run", "produce", "consume", "table", "dead-letters", "doctor")


class FakeOpen:
    """A replacement of ``Application.open`` that keeps its arguments."""

    def __init__(self) -> None:
        self.warehouse: str | None = None
        self.app: str | None = None

    def open(self, path: Path | None = None, *, warehouse: str | None = None, app: str | None = None) -> None:
        assert path is None
        self.warehouse, self.app = warehouse, app
        raise NotFoundError("as far as here")


@pytest.fixture
def fake_open(monkeypatch: pytest.MonkeyPatch) -> FakeOpen:
    fake_open = FakeOpen()
    monkeypatch.setattr(Application, "open", fake_open.open)
    return fake_open


@pytest.mark.parametrize(
    "arguments",
    [
        ["--warehouse", "W", "--app", "A", "consume", "t"],
        ["consume", "t", "--warehouse", "W", "--app", "A"],
        ["consume", "--warehouse", "W", "--app", "A", "t"],
        ["--warehouse", "W", "consume", "t", "--app", "A"],
        ["--warehouse", "other", "--app", "other", "consume", "t", "--warehouse", "W", "--app", "A"],
    ],
)
def test_options_may_precede_or_follow_the_commands_name(
    kaspr: Kaspr, fake_open: FakeOpen, arguments: list[str]
) -> None:
    answer = kaspr(*arguments)
    assert (fake_open.warehouse, fake_open.app) == ("W", "A")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith("as far as here\n")


@pytest.mark.parametrize("arguments", [["--warehouse", "W", "consume", "t"], ["consume", "t", "--warehouse", "W"]])
def test_an_option_wins_over_the_environment(
    kaspr: Kaspr, fake_open: FakeOpen, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", "E")
    kaspr(*arguments)
    assert fake_open.warehouse == "W"


def test_the_environment_wins_over_the_default(
    kaspr: Kaspr, fake_open: FakeOpen, monkeypatch: pytest.MonkeyPatch
) -> None:
    kaspr("consume", "t")
    assert fake_open.warehouse == ".kaspr-delta"
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", "E")
    kaspr("consume", "t")
    assert fake_open.warehouse == "E"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_a_warehouse_and_an_application(kaspr: Kaspr, command: str) -> None:
    answer = kaspr(command, "--help")
    assert answer.code == 0
    assert "--warehouse" in answer.out
    assert "--app" in answer.out


def test_help_names_every_command(kaspr: Kaspr) -> None:
    answer = kaspr("--help")
    assert answer.code == 0
    assert [command for command in COMMANDS if command not in answer.out] == []


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["consume"], ["consume", "t", "--max", "-1"], ["plan"]])
def test_a_wrong_call_has_exit_code_2(kaspr: Kaspr, arguments: list[str]) -> None:
    answer = kaspr(*arguments)
    assert answer.code == 2
    assert "Traceback" not in answer.err


def test_commands_that_need_no_spark_do_not_import_it(tmp_path: Path) -> None:
    program = (
        "import sys, kaspr_delta\n"
        "from kaspr_delta.cli import main\n"
        "for command in ['--help', 'run --help', 'validate .', 'doctor']:\n"
        "    sys.argv = ['kaspr-delta', *command.split()]\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        "    if 'pyspark' in sys.modules: sys.exit(command)"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_warehouse_without_applied_manifests_is_a_wrong_call(kaspr: Kaspr, tmp_path: Path) -> None:
    answer = kaspr("consume", "t", "--warehouse", tmp_path)
    assert answer.code == 2
    assert f"nothing was applied to {tmp_path} yet: name the manifests" in answer.err


@pytest.mark.parametrize("command", [["consume", "t"], ["run"]])
def test_a_malformed_warehouse_is_a_wrong_call(kaspr: Kaspr, command: list[str]) -> None:
    answer = kaspr(*command, "--warehouse", "unity:nonsense")
    assert answer.code == 2
    assert "expected unity://CATALOG.SCHEMA/VOLUME" in answer.err
