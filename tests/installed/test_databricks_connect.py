"""databricks-connect is the package pyspark too: it has an environment of its own, and no workspace is asked here."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.installed.conftest import ROOT, Environment, run

NEWEST = "databricks-connect>=19"

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


# What the package is type-checked with beside what it runs with.
TYPES = (
    "pyarrow<24",  # 24 says that it has types, of which many are missing
    "databricks-bundles",
    "deltalake",
    "jinja2",
    "pandas-stubs",
    "prometheus-client",
    "starlette",
    "types-networkx",
    "uvicorn",
)


@pytest.fixture
def python_312() -> str:
    """A Python that databricks-connect runs on."""
    pyenv = sorted(str(python) for python in Path.home().glob(".pyenv/versions/3.12.*/bin/python"))
    found = [*pyenv, *filter(None, [shutil.which("python3.12")])]
    if not found:
        pytest.skip("there is no Python 3.12")
    return found[0]


@pytest.mark.parametrize(("also", "version"), [((), "17.3"), ((NEWEST,), "19.")])
def test_connect_is_installed_has_what_is_called_and_asks_for_a_profile(
    environment: Environment, python_312: str, tmp_path: Path, also: tuple[str, ...], version: str
) -> None:
    python = environment("connect", of=python_312, also=(*also, *TYPES))
    said = run(python, "-c", USE, cwd=tmp_path)
    assert said.startswith(version)
    assert "profile 'no-such-profile' gives no Spark session" in said
    mypy = Path(sys.executable).with_name("mypy")
    cache = ("--cache-dir", tmp_path / "types")
    run(mypy, "--python-executable", python, "--python-version", "3.12", *cache, ROOT / "src")
