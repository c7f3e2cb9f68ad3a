"""A cluster with a bucket, and commands as a user types them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import Cluster, running_cluster
from tests.cluster.user import User
from tests.documented import ROOT
from tests.s3.conftest import endpoint, warehouse

__all__ = ["endpoint", "warehouse"]


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this package."""
    folder = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return folder


@pytest.fixture(scope="session")
def cluster(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:  # noqa: ARG001
    """A cluster of two workers, which may use the bucket."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("AWS_") or name == "JAVA_HOME"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), kept) as running:
        yield running


@pytest.fixture(scope="session")
def user(cluster: Cluster, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user of the cluster, with an empty folder beside the bundles."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "bundles").symlink_to(ROOT / "bundles")
    others = ("KASPR_", "PYSPARK_", "SPARK_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    more = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "UV_FIND_LINKS": str(wheels),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "NO_COLOR": "1",
    }
    return User(folder, cluster.master, environment | more)
