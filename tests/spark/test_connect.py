"""Spark Connect, as on serverless compute: tests of other files run on it, with batches in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connect import ON_CONNECT

HERE = Path(__file__).parent
# They test restrictions; joins; agents and counters; windows, tasks and continuous runs; large batches; typed tables;
# shared tables; the doctor.
FILES = (
    *("test_serverless.py", "test_order_enrichment.py", "test_joins.py", "test_agents.py", "test_lab.py"),
    *("test_topic_commit.py", "test_ordered_input.py", "test_typed.py", "test_table_groups.py", "test_doctor.py"),
)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_joins_agents_counters_and_windows_run_on_spark_connect() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-m", "not slow", *(HERE / name for name in FILES)]
    # The command is this test's own.
    done = subprocess.run(  # noqa: S603
        list(map(str, command)),
        capture_output=True,
        text=True,
        env={ON_CONNECT: sys.executable, **os.environ},
        cwd=HERE.parents[1],
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:]
    assert " passed" in done.stdout
