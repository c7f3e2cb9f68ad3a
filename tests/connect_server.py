"""``python -m tests.connect_server FOLDER``: a Spark Connect server, with the files of its workers in a folder.

It prints its address, and ends when its standard input does: with the process that started it.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from kaspr_delta.runtime.spark_settings import SETTINGS
from tests.few_rows import WITHOUT_GENERATED_CODE
from tests.ports import free_port

ROOT = Path(__file__).parents[1]


def serve(folder: Path) -> None:
    """Start a server, write its address to standard output, and wait for the end of standard input."""
    from delta.pip_utils import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the JVM shares this process's standard output, which has one reader of one line
    os.environ["PYSPARK_PYTHON"] = str(_sandboxed_python(folder))
    builder, port = SparkSession.Builder().master("local[*]"), free_port()
    for name, value in {
        **SETTINGS,
        **WITHOUT_GENERATED_CODE,
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }.items():
        builder.config(name, value)
    configure_spark_with_delta_pip(builder).getOrCreate()
    print(f"sc://127.0.0.1:{port}", file=output, flush=True)
    sys.stdin.read()


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


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
