"""The tutorial and the recipes work as written: files are made, and commands print the documented output."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kaspr_delta.cli import application
from tests.documented import ROOT, Block, blocks, output_matches

pytestmark = pytest.mark.further

# Commands that make the reader's environment, which tests already have.
INSTALLATION = {"make setup", "source .venv/bin/activate"}


def follow(block: Block, folder: Path) -> None:
    """Write the file of a block, or run its Python or its commands."""
    if block.title is not None:
        (folder / block.title).parent.mkdir(exist_ok=True)
        (folder / block.title).write_text(block.text)
    elif block.language == "python":
        exec(compile(block.text, str(block), "exec"), {})  # noqa: S102  a snippet is there to be executed
    elif block.language == "console":
        for command, shown in block.commands():
            if command.startswith("cd "):
                os.chdir(command.removeprefix("cd "))
            elif command not in INSTALLATION:
                run(command, shown, block)


def run(command: str, shown: list[str], block: Block) -> None:
    """Run ``kaspr-delta …``, or ``echo TEXT | kaspr-delta …``."""
    piped, _, call = command.rpartition(" | ")
    echoed = shlex.split(piped)
    assert echoed[:1] in ([], ["echo"])
    program, *arguments = shlex.split(call)
    assert program == "kaspr-delta"
    result = CliRunner().invoke(application, arguments, input=" ".join(echoed[1:]) or None, catch_exceptions=False)
    fails = any(": error: " in line or line.startswith("FAILED ") for line in shown)
    assert result.exit_code == int(fails), f"{block}: {command}\n{result.output}"
    if shown:
        printed = result.stdout.splitlines()
        assert output_matches(shown, printed), f"{block}: {command}\n{result.stdout}"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "page",
    ["tutorial", pytest.param("first-project", marks=pytest.mark.slow), pytest.param("how-to", marks=pytest.mark.slow)],
)
def test_the_steps_of_a_guide_work_as_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KASPR_DELTA_WAREHOUSE", raising=False)
    steps = list(blocks(ROOT / "docs" / f"{page}.md"))
    assert {"yaml", "console"} <= {step.language for step in steps}
    for step in steps:
        follow(step, tmp_path)
