"""Every folder beside this file is a case: manifests, a ``command`` line, and what must come out.

``expected.txt`` is what the command prints, ``exit_code`` its exit code. ``UPDATE_CASES=1`` rewrites both from what
comes out now: review the difference before you commit it. Only commands that need no Spark are run here.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kaspr_delta.cli.plan import plan
from kaspr_delta.cli.validate import validate

CASES = sorted(command.parent for command in Path(__file__).parent.glob("*/command"))

application = typer.Typer()
application.command()(validate)
application.command()(plan)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_prints_what_is_expected(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(case)
    arguments = shlex.split((case / "command").read_text())
    result = CliRunner().invoke(application, arguments)
    # A traceback is never an answer, whatever the exit code.
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if os.environ.get("UPDATE_CASES"):
        (case / "expected.txt").write_text(result.output)
        (case / "exit_code").write_text(f"{result.exit_code}\n")
    assert result.output == (case / "expected.txt").read_text()
    assert result.exit_code == int((case / "exit_code").read_text())


def test_there_are_cases() -> None:
    assert len(CASES) > 30
