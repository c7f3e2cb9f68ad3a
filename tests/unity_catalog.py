"""A local Unity Catalog server, and the settings of sessions on it. Its managed tables are catalog-managed.

The server is no part of this project. ``KASPR_DELTA_UNITY_CATALOG`` names a folder with ``start.sh``, which prints the
server's address and serves a catalog ``main`` until it is stopped, and with the connector in ``lib``. A process has
either such a session or another one: tests on the server run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = "KASPR_DELTA_UNITY_CATALOG"
"""The environment variable with the folder of the server."""
ON_UNITY_CATALOG = "KASPR_DELTA_TESTS_ON_UNITY_CATALOG"
"""If this environment variable is set, to the server's address, tests run on the server."""
EXTERNAL = "KASPR_DELTA_TESTS_ON_EXTERNAL_TABLES"
"""If this environment variable is set, the tables of these tests are external."""
CATALOG = "main"


def reason_server_cannot_start() -> str | None:
    """The reason why no server can be started, or None."""
    folder = os.environ.get(SERVER)
    if folder is None:
        return f"{SERVER} names no folder with a server of Unity Catalog"
    missing = [name for name in ("start.sh", "lib") if not Path(folder, name).exists()]
    return f"{SERVER}={folder} has no {' and no '.join(missing)}" if missing else None


@contextmanager
def unity_catalog_server(data: Path) -> Iterator[str]:
    """Start a server with its data in a folder. Yields its address. Raises RuntimeError if it does not start."""
    command = [str(Path(os.environ[SERVER], "start.sh")), "0", str(data)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        if not address:
            msg = f"Unity Catalog does not start: see {data}"
            raise RuntimeError(msg)
        yield address
    finally:
        server.terminate()
        server.communicate(timeout=60)


def settings(address: str) -> dict[str, str]:
    """The settings of a session, beside those for Delta."""
    connectors = Path(os.environ[SERVER], "lib").glob("unitycatalog-spark*.jar")
    name = f"spark.sql.catalog.{CATALOG}"
    return {
        "spark.jars": ",".join(map(str, connectors)),
        name: "io.unitycatalog.spark.UCSingleCatalog",
        f"{name}.uri": address,
        f"{name}.token": "none",
    }


def configure(folder: Path) -> None:
    """If tests run on the server, give the next session of this process its catalog."""
    if ON_UNITY_CATALOG not in os.environ:
        return
    lines = [f"{name} {value}\n" for name, value in settings(os.environ[ON_UNITY_CATALOG]).items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    os.environ["SPARK_CONF_DIR"] = str(folder)
