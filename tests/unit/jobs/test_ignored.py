"""A deployment of manifests that git ignores."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kaspr_delta.jobs import Deployment, application_resources
from kaspr_delta.jobs.ignored import ignored_manifests
from tests.manifests import manifests

FOLDER = "bundles/shop"
BUNDLE = "bundle: {name: shop}\nsync:\n  include: [./bundles/shop/kept.yaml]\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bundle in a repository that ignores all manifests but one."""
    folder = tmp_path / FOLDER / "local"
    folder.mkdir(parents=True)
    for name in ("shop.yaml", "kept.yaml", "local/more.yaml", "values.yaml", "a.test.yaml"):
        (tmp_path / FOLDER / name).write_text(manifests("shop", "KasprTable/t: {}") if name == "shop.yaml" else "")
    (tmp_path / ".gitignore").write_text("local/\nkept.yaml\nvalues.yaml\n*.test.yaml\n")
    (tmp_path / "databricks.yml").write_text(BUNDLE)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # noqa: S603, S607
    return tmp_path


def test_a_manifest_that_git_ignores_is_an_error_unless_the_bundle_includes_it(root: Path) -> None:
    found = [finding.location.file for finding in ignored_manifests(root, FOLDER)]
    assert found == [f"{FOLDER}/local/more.yaml", f"{FOLDER}/values.yaml"]
    made = application_resources(Deployment(application="shop"), root)
    assert any("no task would find it" in item.summary for item in made.diagnostics.items)
    assert not made.jobs
    (root / ".gitignore").unlink()
    assert not [*ignored_manifests(root, FOLDER)]


@pytest.mark.parametrize("text", ["sync: [\n", "[]", "sync: {include: all}\n", None])
def test_a_bundle_that_cannot_be_read_includes_nothing(root: Path, text: str | None) -> None:
    (root / "databricks.yml").unlink() if text is None else (root / "databricks.yml").write_text(text)
    assert len([*ignored_manifests(root, FOLDER)]) == 3


def test_without_git_nothing_is_ignored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    assert not [*ignored_manifests(root, FOLDER)]
