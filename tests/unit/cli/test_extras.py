"""The wheel brings no Spark: commands that need it say what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Runs all commands in one process, in which no package of an extra can be imported.
PROGRAM = """
import sys
for package in ("pyspark", "delta", "deltalake", "databricks", "starlette", "uvicorn"):
    sys.modules[package] = None
from kaspr_delta.cli import main

for line in sys.argv[1:]:
    sys.argv = ["kaspr-delta", *line.split()]
    try:
        main()
    except SystemExit as end:
        print(f"exit code {end.code}", file=sys.stderr)
from kaspr_delta import Application
"""
COMMANDS = ("demo", "status --warehouse unity://c.s/v", "consume t --warehouse unity://c.s/v")
SENTENCES = (
    "deltalake is not installed: pip install 'kaspr-delta[local]', or 'kaspr-delta[serve]' to serve alone",
    *["pyspark is not installed: pip install 'kaspr-delta[local]'"] * 2,
)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder: Path = tmp_path_factory.mktemp("without")
    (folder / "t.csv").write_text("id\n1\n")
    program = [sys.executable, "-c", PROGRAM, *COMMANDS]
    done = subprocess.run(program, cwd=folder, input=b"", stderr=subprocess.PIPE, check=True)  # noqa: S603
    return done.stderr.decode().splitlines()


def test_each_command_that_needs_spark_says_what_to_install(lines: list[str]) -> None:
    expected = [line for sentence in SENTENCES for line in (sentence, "exit code 1")]
    assert [line.removeprefix("error: ") for line in lines] == expected
