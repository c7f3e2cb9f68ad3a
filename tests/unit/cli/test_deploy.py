from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Kaspr


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a bundle, which is the working directory, without a Databricks CLI on the path."""
    (tmp_path / "databricks.yml").write_text("bundle: {name: x}\n")
    (tmp_path / "bundles" / "shop").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def install_cli(bundle: Path, code: int = 0) -> Path:
    """Install a fake Databricks CLI; the file to which it writes its arguments."""
    written = bundle / "arguments"
    command = bundle / "bin" / "databricks"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nfor one in "$@"; do echo "$one"; done >{written}\nexit {code}\n')
    command.chmod(0o755)
    return written


@pytest.mark.parametrize("name", ["shop", "bundles/shop", "bundles/shop/"])
def test_the_databricks_cli_gets_the_application_as_a_variable(bundle: Path, kaspr: Kaspr, name: str) -> None:
    written = install_cli(bundle)
    answer = kaspr("deploy", name, "--target", "prod", "--profile", "work", "--var", "catalog=sales")
    assert answer.code == 0
    assert written.read_text().split() == [
        *("bundle", "deploy", "--target", "prod", "--profile", "work"),
        *("--var", "application=shop", "--var", "catalog=sales"),
    ]


def test_a_deployment_that_fails_has_the_cli_s_exit_code(bundle: Path, kaspr: Kaspr) -> None:
    install_cli(bundle, code=3)
    assert kaspr("deploy", "shop").code == 3


@pytest.mark.parametrize(
    ("name", "missing", "code", "message"),
    [
        ("shop", "bin/databricks", 1, "the Databricks CLI is not installed"),
        ("shop", "databricks.yml", 2, "there is no databricks.yml in"),
        *((name, None, 2, "APP is one of those in bundles/") for name in ("shoop", "/etc", "bundles/x")),
    ],
)
def test_a_call_without_the_cli_the_bundle_or_the_application_deploys_nothing(  # noqa: PLR0917  fixtures, and the case
    bundle: Path, kaspr: Kaspr, name: str, missing: str | None, code: int, message: str
) -> None:
    written = install_cli(bundle)
    if missing is not None:
        (bundle / missing).unlink()
    answer = kaspr("deploy", name)
    assert answer.code == code
    assert message in answer.err
    assert not written.exists()
