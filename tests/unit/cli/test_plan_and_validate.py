from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr


@pytest.fixture
def two_applications(tmp_path: Path) -> Path:
    for app, name in (("my-shop", "orders"), ("stock", "items")):
        (tmp_path / f"{app}.yaml").write_text(manifests(app, {f"KasprTable/{name}": f"{{name: {name}}}"}))
    return tmp_path


def applications(text: str) -> list[str]:
    return [one["application"] for one in json.loads(text)["applications"]]


@pytest.mark.parametrize("name", ["my-shop", "my_shop"])
@pytest.mark.parametrize("before", [True, False])
def test_plan_shows_the_chosen_application(kaspr: Kaspr, two_applications: Path, name: str, before: bool) -> None:
    command = ["plan", str(two_applications), "-o", "json"]
    answer = kaspr("--app", name, *command) if before else kaspr(*command, "--app", name)
    assert (answer.code, applications(answer.out)) == (0, ["my-shop"])


def test_plan_shows_all_applications_unless_one_is_chosen(kaspr: Kaspr, two_applications: Path) -> None:
    answer = kaspr("plan", two_applications, "--warehouse", "anywhere", "-o", "json")
    assert applications(answer.out) == ["my-shop", "stock"]


def test_plan_suggests_a_similar_name_for_an_unknown_application(kaspr: Kaspr, two_applications: Path) -> None:
    answer = kaspr("plan", two_applications, "--app", "my-shpo")
    assert (answer.code, answer.out) == (2, "")
    assert "no application 'my-shpo' (did you mean 'my-shop'?)" in answer.err


def test_validate_checks_all_applications_and_ignores_app_and_warehouse(kaspr: Kaspr, two_applications: Path) -> None:
    plain = kaspr("validate", two_applications)
    given = kaspr("validate", two_applications, "--app", "stock", "--warehouse", "unity:nonsense")
    assert plain == given
    assert plain.code == 0
    assert "my-shop.yaml" in plain.out


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_an_error_in_a_manifest_has_exit_code_1(kaspr: Kaspr, tmp_path: Path, command: str) -> None:
    (tmp_path / "m.yaml").write_text(manifests("shop", {"KasprTable/orders": "{}"}) + "kidn: x\n")
    answer = kaspr(command, tmp_path)
    assert answer.code == 1
    assert "m.yaml:5:1: error" in answer.out + answer.err
