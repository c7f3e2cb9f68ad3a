from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT
from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr

FORMAT_1 = Path(__file__).parents[2] / "spark" / "format_1.tar.xz"


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


def test_plan_lists_the_states_that_the_next_run_migrates_and_readers_read_them(kaspr: Kaspr, tmp_path: Path) -> None:
    with tarfile.open(FORMAT_1) as kept:
        kept.extractall(tmp_path, filter="data")
    manifests, warehouse = tmp_path / "every-shape.yaml", tmp_path / "wh"
    before = commits(warehouse)
    shown = kaspr("plan", manifests, "--warehouse", warehouse)
    assert shown.code == 0
    change = "base64 text of bytes has no line breaks"
    migrates = f"the next run migrates its state from format 1 to {STATE_FORMAT}: {change}"
    assert f"join/parts-of-uses: {migrates}" in shown.out
    (application,) = json.loads(kaspr("plan", manifests, "--warehouse", warehouse, "-o", "json").out)["applications"]
    assert application["migrations"]["agent/counting"] == migrates
    found = kaspr("get", "all", "--warehouse", warehouse)
    assert found.code == 0
    assert "counting   True    25" in found.out
    assert commits(warehouse) == before


def commits(warehouse: Path) -> set[Path]:
    return set(warehouse.rglob("_delta_log/*.json"))
