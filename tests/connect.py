"""A local Spark Connect server and a session on it, to test for serverless compute and databricks-connect.

The server has the restrictions of serverless compute (``tests/serverless.py``), and may be of a newer Spark than the
client, as there. A process has either this session or a classic one: tests on Connect run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.serverless import apply_serverless_restrictions

ON_CONNECT = "KASPR_DELTA_TESTS_ON_CONNECT"
"""If this environment variable is set, tests run on Spark Connect: it names the Python of the server's environment."""


@contextmanager
def connect_session(folder: Path) -> Iterator[SparkSession]:
    """A session on a new server on this machine, with its files in ``folder``. This process starts no JVM."""
    from pyspark import SparkContext

    command = [os.environ[ON_CONNECT], "-m", "tests.connect_server", str(folder)]
    # The command is this module's own.
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address, f"the server does not start: {command}"
        os.environ["SPARK_REMOTE"] = address
        session: SparkSession = SparkSession.builder.getOrCreate()
        apply_serverless_restrictions()
        yield session
        session.stop()  # or the client would ask the server that is gone, again and again, as this process ends
        assert SparkContext._gateway is None
