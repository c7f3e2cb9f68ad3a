"""A local server of Spark Connect, such as serverless compute and databricks-connect are, and a session on it.

A process has either this session or a classic one: tests on Connect run in a process of their own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kaspr_delta.runtime.session import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_CONNECT = "KASPR_DELTA_TESTS_ON_CONNECT"
"""The environment variable with which tests run on Connect."""


def connect_session(folder: Path) -> SparkSession:
    """A session on a new server in this machine's memory, whose files are in ``folder``."""
    from delta.pip_utils import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    settings = {
        **SETTINGS,
        **configure_spark_with_delta_pip(SparkSession.Builder())._options,
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    # The server is started with its own settings: what a client sets later would come too late for most of them.
    os.environ["SPARK_CONF_DIR"] = str(folder)
    os.environ["PYSPARK_PYTHON"] = str(_sandboxed(folder))
    return SparkSession.builder.remote("local[*]").getOrCreate()


def _sandboxed(folder: Path) -> Path:
    """A Python for the server's workers: each has a folder for temporary files of its own, as in a sandbox."""
    command = folder / "python"
    command.write_text(
        f'#!/bin/sh\nTMPDIR=$(mktemp -d "{folder}/sandbox-XXXXXX") && export TMPDIR && exec "{sys.executable}" "$@"\n'
    )
    command.chmod(0o755)
    return command
