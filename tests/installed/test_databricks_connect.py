"""The package with databricks-connect, which replaces pyspark: in a new environment, without a workspace."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.installed.conftest import ROOT, Environment, run

NEWEST = "databricks-connect>=19"

# Imports every module that a program on databricks-connect uses, the engine included; then opens an application.
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


# Packages that the type check needs, beside those that the program needs.
TYPES = (
    "pyarrow<24",  # 24 declares types, but many are missing
    "databricks-bundles",
    "deltalake",
    "jinja2",
    "pandas-stubs",
    "prometheus-client",
    "starlette",
    "uvicorn",
)


@pytest.fixture
def python_312() -> str:
    """A Python 3.12, which databricks-connect runs on."""
    pyenv = sorted(str(python) for python in Path.home().glob(".pyenv/versions/3.12.*/bin/python"))
    found = [*pyenv, *filter(None, [shutil.which("python3.12")])]
    if not found:
        pytest.skip("there is no Python 3.12")
    return found[0]


@pytest.mark.parametrize(("also", "version"), [((), "17.3"), ((NEWEST,), "19.")])
def test_databricks_connect_has_all_used_apis_and_reports_a_missing_profile(
    environment: Environment, python_312: str, tmp_path: Path, also: tuple[str, ...], version: str
) -> None:
    python = environment("connect", of=python_312, also=(*also, *TYPES))
    output = run(python, "-c", USE, cwd=tmp_path)
    assert output.startswith(version)
    assert "profile 'no-such-profile' gives no Spark session" in output
    mypy = Path(sys.executable).with_name("mypy")
    cache = ("--cache-dir", tmp_path / "types")
    run(mypy, "--python-executable", python, "--python-version", "3.12", *cache, ROOT / "src")
