"""A repository of one's own, out of the installed wheel; and the package out of the files that the bundle uploads."""

from __future__ import annotations

import fnmatch
import shutil
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.installed.conftest import ROOT, Environment, run

UV = Path(sys.executable).with_name("uv")


@pytest.mark.spark
def test_a_made_repository_runs_at_once_and_passes_its_tests(
    environment: Environment, wheel: Path, tmp_path: Path
) -> None:
    python = environment()
    run(python, "-m", "kaspr_delta", "init", "shop", cwd=tmp_path)
    shop = tmp_path / "shop"
    # No index has the version that is tested: its wheel stands in the repository.
    shutil.copy(wheel, shop)
    (shop / "requirements-deploy.txt").write_text(f"./{wheel.name}[deploy]\n")
    run(UV, "pip", "install", "--quiet", "--python", python, "-r", "requirements-dev.txt", cwd=shop)
    assert "caught up" in run(python, "-m", "kaspr_delta", "run", "bundles/shop", cwd=shop)
    assert "5 passed, 0 failed" in run(python, "-m", "kaspr_delta", "test", cwd=shop)
    assert "6 passed" in run(python, "-m", "pytest", "-W", "error::DeprecationWarning:starlette", cwd=shop)


def test_the_environment_that_deploys_is_small_and_has_no_spark(environment: Environment, tmp_path: Path) -> None:
    python = environment("deploy")
    # The SDK of Databricks is there too: a deployment that changes runs without end restarts them by it.
    run(python, "-c", "import kaspr_delta.jobs, kaspr_delta.cli, kaspr_delta.workspace.restart", cwd=tmp_path)
    run(python, "-c", "import databricks.sdk", cwd=tmp_path)
    files = [file for file in (tmp_path / "venv").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 300_000_000
    assert not [file for file in files if "pyspark" in file.parts]


def test_a_notebook_installs_the_package_from_the_files_of_the_bundle(tmp_path: Path) -> None:
    excluded = YAML(typ="safe").load(ROOT / "databricks.yml")["sync"]["exclude"]
    for file in run("git", "ls-files").splitlines():
        if not any(fnmatch.fnmatch(file, pattern) for pattern in excluded):
            (tmp_path / "files" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / "files" / file)
    run(UV, "venv", "--quiet", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", python, "..", cwd=tmp_path / "files" / "notebooks")
    applications = tmp_path / "files" / "bundles"
    assert "orders-products-join" in run(python, "-m", "kaspr_delta", "plan", applications / "order-system")
