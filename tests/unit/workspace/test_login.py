from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.workspace import Workspace
from tests.unit.workspace.server import FakeWorkspace

# A Databricks CLI whose login is in the file `login`. It writes its arguments before the command to `arguments`.
CLI = """
import json, os, pathlib, subprocess, sys
place = pathlib.Path(__file__).parent
at = sys.argv.index("--")
(place / "arguments").write_text(" ".join(sys.argv[1:at]))
login = json.loads((place / "login").read_text())
if isinstance(login, str):
    sys.exit(login)
others = {name: value for name, value in os.environ.items() if not name.startswith("DATABRICKS_")}
sys.exit(subprocess.run(sys.argv[at + 1 :], env={**others, **login}).returncode)
"""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a fake CLI on the path. The working directory is that of a bundle."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cli.py").write_text(CLI)
    (folder / "databricks").write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/cli.py "$@"\n')
    (folder / "databricks").chmod(0o755)
    (tmp_path / "databricks.yml").write_text("bundle: {name: x}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def hand(cli: Path, login: dict[str, str] | str) -> None:
    (cli / "login").write_text(json.dumps(login))


@pytest.mark.parametrize(("profile", "options"), [(None, ""), ("work", " --profile work")])
def test_a_target_s_workspace_is_that_of_the_cli_with_its_login(
    cli: Path, workspace: FakeWorkspace, monkeypatch: pytest.MonkeyPatch, profile: str | None, options: str
) -> None:
    (cli.parent / "bundles").mkdir()
    monkeypatch.chdir(cli.parent / "bundles")
    hand(cli, {"DATABRICKS_HOST": os.environ["DATABRICKS_HOST"], "DATABRICKS_TOKEN": "of the target"})
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:1")
    monkeypatch.setenv("DATABRICKS_CLIENT_ID", "of another login")
    found = Workspace.of_target("prod", profile)
    assert (cli / "arguments").read_text() == f"bundle run --target prod{options}"
    assert found.jobs("prod")
    assert workspace.requested_paths
    assert found.client.config.authenticate()["Authorization"] == "Bearer of the target"
    assert "DATABRICKS_CLIENT_ID" not in os.environ


def test_a_target_without_a_login_is_an_error_with_the_message_of_the_cli(cli: Path) -> None:
    hand(cli, "Error: prod: no such target. Available targets: dev")
    with pytest.raises(SetupError, match=r"no login for target 'prod': Error: prod: no such target"):
        Workspace.of_target("prod")


@pytest.mark.parametrize("missing", ["databricks.yml", "bin/databricks"])
def test_away_from_a_bundle_and_without_the_cli_the_login_of_the_environment_counts(
    cli: Path, workspace: FakeWorkspace, missing: str
) -> None:
    (cli.parent / missing).unlink()
    assert Workspace.of_target("prod").jobs("prod")
    assert workspace.requested_paths
    assert not (cli / "arguments").exists()
