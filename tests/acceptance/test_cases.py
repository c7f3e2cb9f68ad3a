"""Acceptance cases of the command line: a folder beside this file has manifests, a ``command`` and its outcome.

``expected.txt`` is the output of the command, ``exit_code`` its exit code. ``UPDATE_CASES=1`` rewrites both with the
current outcome: review the difference before you commit it. The commands of cases need no Spark.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kaspr_delta.cli.options import with_target
from kaspr_delta.cli.plan import plan
from kaspr_delta.cli.validate import validate

CASES = sorted(command.parent for command in Path(__file__).parent.glob("*/command"))

application = typer.Typer()
application.command()(with_target(validate))
application.command()(with_target(plan))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_commands_have_the_expected_output_and_exit_code(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(case)
    arguments = shlex.split((case / "command").read_text())
    result = CliRunner().invoke(application, arguments)
    # An exception fails the case, whatever the exit code.
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if os.environ.get("UPDATE_CASES"):
        (case / "expected.txt").write_text(result.output)
        (case / "exit_code").write_text(f"{result.exit_code}\n")
    assert result.output == (case / "expected.txt").read_text()
    assert result.exit_code == int((case / "exit_code").read_text())


def test_more_than_30_cases_are_found() -> None:
    assert len(CASES) > 30
