"""A local Spark Connect server and a session on it, to test for serverless compute and databricks-connect.

The server has the restrictions of serverless compute (``tests/serverless.py``). A process has either this session or
a classic one: tests on Connect run in a process of their own.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from kaspr_delta.runtime.session import SETTINGS
from tests.few_rows import WITHOUT_GENERATED_CODE
from tests.serverless import apply_serverless_restrictions

ON_CONNECT = "KASPR_DELTA_TESTS_ON_CONNECT"
"""If this environment variable is set, tests run on Spark Connect."""
ROOT = Path(__file__).parents[1]


def connect_session(folder: Path) -> SparkSession:
    """A session on a new server on this machine, with its files in ``folder``."""
    from delta.pip_utils import configure_spark_with_delta_pip

    settings = {
        **SETTINGS,
        **WITHOUT_GENERATED_CODE,
        **configure_spark_with_delta_pip(SparkSession.Builder())._options,
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    # The server reads these settings when it starts. A client could not set most of them later.
    os.environ["SPARK_CONF_DIR"] = str(folder)
    os.environ["PYSPARK_PYTHON"] = str(_sandboxed_python(folder))
    session: SparkSession = SparkSession.builder.remote("local[*]").getOrCreate()
    apply_serverless_restrictions()
    return session


def _sandboxed_python(folder: Path) -> Path:
    """A Python for the server's workers, with the limits of serverless compute and a working folder for each."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("from tests.serverless import begin_worker\n\nbegin_worker()\n")
    paths = ":".join(shlex.quote(str(path)) for path in (site, ROOT / "src", ROOT))
    command = folder / "python"
    command.write_text(
        "#!/bin/sh\n"
        f'TMPDIR=$(mktemp -d "{folder}/sandbox-XXXXXX") && export TMPDIR && cd "$TMPDIR" &&'
        f' PYTHONPATH={paths}:"$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    )
    command.chmod(0o755)
    return command
