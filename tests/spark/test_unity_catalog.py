"""The tests on tables of a catalog pass on a real Unity Catalog too, with its managed and its external tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unity_catalog import EXTERNAL, ON_UNITY_CATALOG, reason_server_cannot_start, unity_catalog_server

HERE = Path(__file__).parent
FILES = (
    *("test_streams_of_a_catalog.py", "test_endless_streams_of_a_catalog.py", "test_table_groups.py"),
    *("test_storm_of_a_catalog.py", "test_doctor.py", "test_declared_storage.py"),
)
# This test, whose runs die at many places, takes an hour on Unity Catalog. It uses the session's own catalog only.
LEFT_OUT = "test_every_shape_has_the_same_outcome_in_a_catalog_as_in_a_folder"


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("tables", [{}, {EXTERNAL: "1"}], ids=["managed", "external"])
def test_the_tests_of_catalog_tables_pass_on_unity_catalog(tables: dict[str, str], tmp_path: Path) -> None:
    if (reason := reason_server_cannot_start()) is not None:
        pytest.skip(reason)
    files = [str(HERE / name) for name in FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-k", f"not {LEFT_OUT}", *files]
    with unity_catalog_server(tmp_path) as address:
        # The command is this test's own.
        done = subprocess.run(  # noqa: S603
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **tables, ON_UNITY_CATALOG: address},
            cwd=HERE.parents[1],
            check=False,
        )
    assert done.returncode == 0, done.stdout[-10_000:]
    assert " passed" in done.stdout
