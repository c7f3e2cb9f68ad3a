from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from databricks.bundles.core import Bundle
from ruamel.yaml import YAML

from kaspr_delta import __version__
from kaspr_delta.jobs import Deployment, load_resources
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.loader import load_path
from kaspr_delta.testing import fixtures_in
from tests.unit.cli.conftest import Kaspr

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "src" / "kaspr_delta" / "project"
PARTS = ("topics", "join", "agent", "view", "task")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder and without a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)


def files_in(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def settings_of(made: Path) -> dict[str, Any]:
    """The settings of the bundle in a folder."""
    settings: dict[str, Any] = YAML(typ="safe").load(made / "databricks.yml")
    return settings


def test_the_manifests_have_no_findings_and_all_kinds(kaspr: Kaspr, tmp_path: Path) -> None:
    assert kaspr("init", "order-desk").code == 0
    (plan,), findings = build_plans(load_path(tmp_path / "order-desk" / "bundles" / "order-desk"))
    assert list(findings) == []
    assert plan.application == "order-desk"
    assert len(plan.tables) == 2
    assert [len(kind) for kind in (plan.agents, plan.joins, plan.web_views, plan.tasks)] == [3, 1, 1, 1]
    assert not plan.waiting


@pytest.mark.parametrize("named", [(part,) for part in PARTS] + [PARTS[:2]])
def test_parts_that_are_not_named_are_left_out_with_their_tests(
    kaspr: Kaspr, tmp_path: Path, named: tuple[str, ...]
) -> None:
    kaspr("init", "shop", *chain.from_iterable(("--part", part) for part in named))
    made = files_in(tmp_path / "shop")
    for part in PARTS:
        its_test = "tests/test_view.py" if part == "view" else f"bundles/shop/{part}.test.yaml"
        assert (f"bundles/shop/{part}.yaml" in made) is (its_test in made) is (part in named)
    plans, findings = build_plans(load_path(tmp_path / "shop" / "bundles" / "shop"))
    assert (list(findings), plans[0].waiting) == ([], ())
    assert len(fixtures_in(tmp_path / "shop")) == 1 + len({*named} - {"view"})


def test_on_a_terminal_it_asks_for_what_is_not_given(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answered(question: str, default: object) -> object:
        asked.append(question)
        return "sales" if default == "main" else "join" in question

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.prompt", answered)
    monkeypatch.setattr("typer.confirm", answered)
    assert kaspr("init", "shop").code == 0
    assert [question.partition(" ")[0] for question in asked] == ["Catalog", "Topics,", "A", "An", "A", "A"]
    assert [part for part in PARTS if (tmp_path / "shop" / "bundles" / "shop" / f"{part}.yaml").exists()] == ["join"]
    assert settings_of(tmp_path / "shop")["variables"]["catalog"]["default"] == "sales"
    asked.clear()
    kaspr("init", "mall", "--part", "view", "--catalog", "sales")
    assert asked == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Shop",), "'Shop' is refused: A name consists of lower-case letters"),
        (("shop", "--catalog", "a.b"), "'a.b' is refused: A catalog's name"),
        (("shop", "--part", "jion"), "no part 'jion' (did you mean 'join'?)"),
    ],
)
def test_a_wrong_call_writes_nothing(kaspr: Kaspr, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    answer = kaspr("init", *arguments)
    assert answer.code == 2
    assert message in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_exists_is_not_replaced(kaspr: Kaspr, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "README.md").write_text("mine")
    answer = kaspr("init", "shop")
    assert (answer.code, files_in(tmp_path / "shop")) == (2, {"README.md": "mine"})
    assert "README.md exists" in answer.err


def test_the_bundle_deploys_the_application_with_the_version_that_made_it(
    kaspr: Kaspr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kaspr("init", "shop")
    made = tmp_path / "shop"
    bundle = settings_of(made)
    assert list(bundle["targets"]) == ["dev", "staging", "prod"]
    defaults = {name: one["default"] for name, one in bundle["variables"].items()}
    assert set(defaults) <= {field.name for field in fields(Deployment)}
    assert Deployment.from_variables(defaults) == Deployment(application="shop")
    monkeypatch.chdir(made)
    monkeypatch.setenv("DATABRICKS_BUNDLE_TMP", str(tmp_path / "state"))
    resources = load_resources(Bundle(target="prod", variables={**defaults, "sql_warehouse": "w1"}))
    assert not resources.diagnostics.items
    job: dict[str, Any] = dict(resources.jobs["shop"].as_dict())
    assert job["environments"][0]["spec"]["dependencies"] == [f"kaspr-delta=={__version__}"]
    assert f"kaspr-delta[deploy]=={__version__}" in (made / "requirements-deploy.txt").read_text()
    assert f'version = "{__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_the_workflow_has_a_pinned_cli_and_no_secret(kaspr: Kaspr, tmp_path: Path) -> None:
    kaspr("init", "shop")
    workflow = tmp_path / "shop" / ".github" / "workflows" / "deploy.yml"
    deploy = YAML(typ="safe").load(workflow)["jobs"]["deploy"]
    assert deploy["permissions"]["id-token"] == "write"
    assert deploy["env"]["DATABRICKS_AUTH_TYPE"] == "github-oidc"
    (cli,) = (step["uses"] for step in deploy["steps"] if "setup-cli" in step.get("uses", ""))
    pinned = re.fullmatch(r"databricks/setup-cli@v(\d+)\.(\d+)\.\d+", cli)
    least = re.search(r">= (\d+)\.(\d+)", settings_of(tmp_path / "shop")["bundle"]["databricks_cli_version"])
    assert pinned is not None
    assert least is not None
    assert tuple(map(int, pinned.groups())) >= tuple(map(int, least.groups()))
    assert "secrets." not in workflow.read_text()


def test_the_readme_has_ten_lines(kaspr: Kaspr, tmp_path: Path) -> None:
    kaspr("init", "shop")
    assert len((tmp_path / "shop" / "README.md").read_text().splitlines()) == 10


@pytest.mark.usefixtures("workspace")  # the CLI asks one about itself
@pytest.mark.parametrize("parts", [PARTS, ("join",), ("topics", "view")])
def test_databricks_bundle_init_makes_the_same(kaspr: Kaspr, tmp_path: Path, parts: tuple[str, ...]) -> None:
    cli = os.environ.get("KASPR_DELTA_DATABRICKS_CLI") or shutil.which("databricks")
    if cli is None:
        pytest.skip("there is no Databricks CLI; KASPR_DELTA_DATABRICKS_CLI may name it")
    kaspr("init", "order-desk", "--catalog", "sales", *chain.from_iterable(("--part", part) for part in parts))
    answers = {"name": "order-desk", "catalog": "sales", **{part: "yes" if part in parts else "no" for part in PARTS}}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    quiet = {"DATABRICKS_CLI_DISABLE_UPDATE_CHECK": "1", "DATABRICKS_CLI_DISABLE_TELEMETRY": "1", "HOME": str(tmp_path)}
    options = ["--output-dir", "made", "--config-file", "answers.json"]
    subprocess.run([cli, "bundle", "init", PROJECT, *options], check=True, env={**os.environ, **quiet}, timeout=60)  # noqa: S603
    assert files_in(tmp_path / "made" / "order-desk") == files_in(tmp_path / "order-desk")
