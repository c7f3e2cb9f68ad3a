"""databricks-connect is the package pyspark too: it has an environment of its own, and no workspace is asked here."""

from __future__ import annotations

from pathlib import Path

from tests.installed.conftest import Environment, run

# Every module that a program on databricks-connect comes by, the engine included; then the door itself.
USE = """
import importlib.metadata, pkgutil
import kaspr_delta
from databricks.connect import DatabricksSession
from kaspr_delta.errors import SetupError

for module in pkgutil.walk_packages(kaspr_delta.__path__, "kaspr_delta."):
    if not module.name.startswith(("kaspr_delta.jobs", "kaspr_delta.__main__", "kaspr_delta.bundles")):
        importlib.import_module(module.name)
try:
    kaspr_delta.Application.open(warehouse="unity://main.shop/checkpoints", profile="no-such-profile")
except SetupError as error:
    print(importlib.metadata.version("databricks-connect"), error)
"""


def test_the_extra_connect_is_installed_and_asks_for_a_profile(environment: Environment, tmp_path: Path) -> None:
    said = run(environment("connect"), "-c", USE, cwd=tmp_path)
    assert said.startswith("1")
    assert "profile 'no-such-profile' gives no Spark session" in said
