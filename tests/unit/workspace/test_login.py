from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kaspr_delta.errors import SetupError
from kaspr_delta.workspace import Workspace
from kaspr_delta.workspace.login import Login
from tests.unit.workspace.server import FakeWorkspace

BUNDLE = """
include: [more/*.yml]
workspace: {host: https://root.cloud.databricks.com, profile: all}
targets:
  dev: {mode: development}
  prod: {workspace: {host: "https://PROD.cloud.databricks.com/"}}
"""
INCLUDED = "targets: {stage: {workspace: {profile: stage}}}"
PROFILES = """
[DEFAULT]
host = https://other.cloud.databricks.com
token = t0

[prod]
host = https://prod.cloud.databricks.com
token = t1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a bundle, which is the working directory, with two profiles and no login in the environment."""
    (tmp_path / "more").mkdir()
    (tmp_path / "databricks.yml").write_text(BUNDLE)
    (tmp_path / "more" / "stage.yml").write_text(INCLUDED)
    (tmp_path / "profiles").write_text(PROFILES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "profiles"))
    for name in ("HOST", "TOKEN", "CONFIG_PROFILE"):
        monkeypatch.delenv(f"DATABRICKS_{name}", raising=False)
    # The SDK asks each host about itself, and does without an answer: nobody answers here.
    monkeypatch.setattr("databricks.sdk.config.get_host_metadata", unanswered)
    return tmp_path


def unanswered(*_: object, **__: object) -> None:
    raise OSError("nobody is there")


def use(folder: Path, bundle: str) -> None:
    (folder / "databricks.yml").write_text(bundle)


def host_of(target: str, profile: str | None = None) -> str | None:
    host: str | None = Workspace.of_target(target, profile).client.config.host
    return host


@pytest.mark.parametrize(
    ("target", "host", "profile"),
    [
        ("dev", "https://root.cloud.databricks.com", "all"),
        ("prod", "https://PROD.cloud.databricks.com/", "all"),
        ("stage", "https://root.cloud.databricks.com", "stage"),
    ],
)
def test_a_target_comes_before_its_bundle_and_files_are_included(
    folder: Path, target: str, host: str, profile: str
) -> None:
    assert Login.of_target(folder, target) == Login(host, profile)


def test_the_workspace_is_that_of_the_target_as_it_is_for_the_cli(folder: Path) -> None:
    use(folder, BUNDLE.replace(", profile: all", ""))
    assert host_of("prod") == "https://prod.cloud.databricks.com"
    assert host_of("prod", "prod") == "https://prod.cloud.databricks.com"


@pytest.mark.parametrize(
    ("more", "environment", "profile"),
    [
        ("", {}, "DEFAULT"),
        ("[other]\nhost = https://prod.cloud.databricks.com\ntoken = t2\n", {}, None),
        ("", {"DATABRICKS_HOST": "https://other.cloud.databricks.com", "DATABRICKS_TOKEN": "t"}, None),
        ("", {"DATABRICKS_CONFIG_PROFILE": "DEFAULT"}, None),
    ],
    ids=["another profile", "two profiles", "another environment", "another profile of the environment"],
)
def test_nothing_is_asked_of_another_workspace_than_the_target_s(
    folder: Path, monkeypatch: pytest.MonkeyPatch, more: str, environment: Mapping[str, str], profile: str | None
) -> None:
    use(folder, BUNDLE.replace(", profile: all", ""))
    (folder / "profiles").write_text(PROFILES + more)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SetupError, match=r"'prod' is at https://PROD.*, and the login is for https://other\."):
        host_of("prod", profile)


def test_a_target_without_a_host_is_at_the_workspace_of_the_login(folder: Path) -> None:
    use(folder, "targets: {prod: }")
    assert host_of("prod") == "https://other.cloud.databricks.com"
    (folder / "databricks.yml").unlink()
    assert host_of("prod", "prod") == "https://prod.cloud.databricks.com"


def test_a_login_of_the_environment_serves_a_target_at_its_host(
    folder: Path, workspace: FakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workspace.jobs
    host = Workspace.connect().client.config.host
    monkeypatch.setenv("DATABRICKS_HOST", host)
    monkeypatch.setenv("DATABRICKS_TOKEN", "token")
    use(folder, f"targets: {{prod: {{workspace: {{host: '{host}'}}}}}}")
    assert host_of("prod") == host


def test_a_bundle_that_is_no_yaml_is_an_error(folder: Path) -> None:
    use(folder, "targets: [")
    with pytest.raises(SetupError, match=r"databricks\.yml cannot be read"):
        host_of("prod")
