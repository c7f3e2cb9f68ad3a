from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kaspr_delta.application import Application
from kaspr_delta.errors import NotFoundError
from tests.unit.cli.conftest import Kaspr


class FakeOpen:
    """A replacement of ``Application.open`` that keeps its arguments."""

    def __init__(self) -> None:
        self.warehouse: str | None = None
        self.app: str | None = None

    def open(
        self,
        path: Path | None = None,
        *,
        warehouse: str | None = None,
        app: str | None = None,
        origin: str,
        revision: str,
        apply: bool,
        values: dict[str, Any],
        starting: object,  # noqa: ARG002
        trusting: bool,
    ) -> None:
        assert (path, origin, revision, apply, trusting, values) == (None, "", "", True, False, {})
        self.warehouse, self.app = warehouse, app
        raise NotFoundError("as far as here")


@pytest.fixture
def fake_open(monkeypatch: pytest.MonkeyPatch) -> FakeOpen:
    fake_open = FakeOpen()
    monkeypatch.setattr(Application, "open", fake_open.open)
    return fake_open


@pytest.mark.parametrize(
    ("environment", "line", "warehouse", "app"),
    [
        (None, "--warehouse W --app A consume t", "W", "A"),
        (None, "consume t --warehouse W --app A", "W", "A"),
        (None, "consume --warehouse W --app A t", "W", "A"),
        (None, "--warehouse W consume t --app A", "W", "A"),
        (None, "--warehouse other --app other consume t --warehouse W --app A", "W", "A"),
        ("E", "--warehouse W consume t", "W", None),
        ("E", "consume t --warehouse W", "W", None),
        ("E", "consume t", "E", None),
        (None, "consume t", ".kaspr-delta", None),
    ],
)
def test_options_precede_or_follow_the_command_and_win_over_the_environment_which_wins_over_the_default(
    kaspr: Kaspr,
    fake_open: FakeOpen,
    monkeypatch: pytest.MonkeyPatch,
    *,
    environment: str | None,
    line: str,
    warehouse: str,
    app: str | None,
) -> None:
    if environment is not None:
        monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", environment)
    answer = kaspr(*line.split())
    assert (fake_open.warehouse, fake_open.app) == (warehouse, app)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith("as far as here\n")


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["consume"], ["consume", "t", "--max", "-1"], ["plan"]])
def test_a_wrong_call_has_exit_code_2(kaspr: Kaspr, arguments: list[str]) -> None:
    answer = kaspr(*arguments)
    assert answer.code == 2
    assert "Traceback" not in answer.err


@pytest.mark.process
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


BUNDLE = Path(__file__).parents[3] / "bundles" / "order-system"
# Nothing that prints lines needs rich, and nothing that reads manifests alone needs tables.
# Only rows that are read by their columns, and those that are merged, need Arrow's functions.
_SLOW = {"pandas", "pyspark"}
_OF_ROWS = {"pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet"}
_OF_TABLES = {"deltalake", "numpy", "pyarrow"}
SPARED = {
    "--version": {*_SLOW, *_OF_TABLES, "pydantic", "rich", "ruamel"},
    f"validate {BUNDLE}": {*_SLOW, *_OF_TABLES, "rich"},
    "produce raw-products": {*_SLOW, *_OF_ROWS},
    "consume raw-products": {*_SLOW, "rich"},
    "table products dump": {*_SLOW, "rich"},
    "status": {*_SLOW, *_OF_ROWS},
    "dead-letters": {*_SLOW, *_OF_ROWS, "rich"},
    "describe table products": {*_SLOW, *_OF_ROWS, "rich"},
    "get topics": {*_SLOW, *_OF_ROWS, "rich"},
}


@pytest.mark.process
def test_quick_commands_import_nothing_that_only_other_commands_need(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from kaspr_delta.__main__ import main\n"
        "spared = set(sys.argv.pop().split())\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "found = spared & set(sys.modules)\n"
        "if found: sys.exit(f'{found} were imported')"
    )
    record = '{"key": "P1", "value": {"name": "lamp"}}'
    Application.open(BUNDLE, warehouse=tmp_path / "wh")
    for command, spared in SPARED.items():
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", program, *command.split(), " ".join(spared)],
            cwd=tmp_path,
            # no java either
            env={**os.environ, "PATH": "", "KASPR_DELTA_WAREHOUSE": str(tmp_path / "wh")},
            input=record,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.mark.parametrize("command", ["consume t", "run"])
def test_a_warehouse_that_is_malformed_or_has_no_manifests_is_a_wrong_call(
    kaspr: Kaspr, tmp_path: Path, command: str
) -> None:
    malformed = kaspr(*command.split(), "--warehouse", "unity:nonsense")
    empty = kaspr(*command.split(), "--warehouse", tmp_path)
    assert (malformed.code, empty.code) == (2, 2)
    assert "expected unity://CATALOG.SCHEMA/VOLUME" in malformed.err
    assert f"nothing was applied to {tmp_path} yet: name the manifests" in empty.err
