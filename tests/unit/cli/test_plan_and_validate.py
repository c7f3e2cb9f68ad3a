from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

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


VALUED = """\
apiVersion: kaspr.io/v1alpha1
kind: KasprApp
metadata: {name: shop}
---
apiVersion: kaspr.io/v1alpha1
kind: KasprTable
metadata: {name: orders, labels: {kaspr.io/app: shop}}
spec:
  description: of ${region}, below ${warehouse}
  partitions: ${partitions}
"""


@pytest.fixture
def valued(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.yaml").write_text(VALUED)
    (folder / "values.yaml").write_text("partitions: 2\nregion: here\n")
    (folder / "values.prod.yaml").write_text("partitions: 8\nregion: there\n")
    return folder


def test_values_of_files_and_of_the_command_line_stand_for_references(kaspr: Kaspr, valued: Path) -> None:
    def values(*options: str) -> dict[str, Any]:
        answer = kaspr("plan", valued, "-o", "json", "--warehouse", "/wh", *options)
        found: dict[str, Any] = json.loads(answer.out)["values"]
        return found

    prod = ("--values", str(valued / "values.prod.yaml"))
    assert values() == {"partitions": 2, "region": "here", "warehouse": "/wh"}
    assert values(*prod) == {"partitions": 8, "region": "there", "warehouse": "/wh"}
    assert values(*prod, "--set", "partitions=3")["partitions"] == "3"
    before = kaspr(*prod, "plan", valued, "-o", "text", "--warehouse", "/wh")
    assert before.out.endswith("\n\nvalues\n  partitions: 8\n  region: there\n  warehouse: /wh\n")


def test_wrong_values_are_found(kaspr: Kaspr, valued: Path) -> None:
    unused = kaspr("validate", valued, "--set", "regoin=x")
    assert unused.code == 0
    assert "warning: no manifest has a parameter 'regoin' (did you mean 'region'?)" in unused.out
    (valued / "values.yaml").unlink()
    missing = kaspr("validate", valued, "--set", "region=x")
    assert missing.code == 1
    assert (
        "app.yaml:10:15: error: the parameter 'partitions' has no value (give it, as in --set partitions=…"
        in missing.out
    )
    wrong = kaspr("validate", valued, "--set", "region")
    assert wrong.code == 2
    assert "--set 'region': expected NAME=VALUE, as in --set region=eu" in wrong.err
    gone = kaspr("validate", valued, "--values", "gone.yaml")
    assert gone.code == 1
    assert "gone.yaml:1:1: error: these values cannot be read: No such file or directory" in gone.err


def test_commands_without_manifests_take_no_values(kaspr: Kaspr) -> None:
    assert "--values" not in kaspr("get", "--help").out
    assert "--values" in kaspr("run", "--help").out
