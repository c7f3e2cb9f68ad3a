from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr


@pytest.fixture
def two_applications(tmp_path: Path) -> Path:
    for app, name in (("my-shop", "orders"), ("stock", "items")):
        (tmp_path / f"{app}.yaml").write_text(manifests(app, f"KasprTable/{name}: {{name: {name}}}"))
    return tmp_path


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("--app my-shop", "", ["my-shop"]),
        ("--app my_shop", "", ["my-shop"]),
        ("", "--app my-shop", ["my-shop"]),
        ("", "--warehouse anywhere", ["my-shop", "stock"]),
    ],
)
def test_plan_shows_all_applications_unless_one_is_chosen(
    kaspr: Kaspr, two_applications: Path, before: str, after: str, shown: list[str]
) -> None:
    answer = kaspr(*before.split(), "plan", two_applications, "-o", "json", *after.split())
    assert answer.code == 0
    assert [one["application"] for one in json.loads(answer.out)["applications"]] == shown


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
