"""A deployment of manifests that git ignores."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kaspr_delta.jobs import Deployment, application_resources
from kaspr_delta.jobs.ignored import ignored_manifests
from tests.manifests import manifests

FOLDER = "bundles/shop"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bundle in a repository that ignores some files."""
    folder = tmp_path / FOLDER / "local"
    folder.mkdir(parents=True)
    for name in ("shop.yaml", "kept.yaml", "local/more.yaml", "values.yaml", "a.test.yaml"):
        (tmp_path / FOLDER / name).write_text(manifests("shop", "KasprTable/t: {}") if name == "shop.yaml" else "")
    (tmp_path / ".gitignore").write_text("local/\nkept.yaml\nvalues.yaml\n*.test.yaml\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # noqa: S603, S607
    return tmp_path


def test_a_manifest_that_git_ignores_is_a_warning(root: Path) -> None:
    (root / FOLDER / "values.prod.yaml").write_text("")
    ignored = [f"{FOLDER}/kept.yaml", f"{FOLDER}/local/more.yaml", f"{FOLDER}/values.yaml"]
    assert [finding.location.file for finding in ignored_manifests(root, FOLDER)] == ignored
    (root / ".gitignore").write_text("values.prod.yaml\n")
    assert not [*ignored_manifests(root, FOLDER)]
    made = application_resources(Deployment(application="shop", values="values.prod.yaml"), root)
    assert any("no task applies the manifests without it" in item.summary for item in made.diagnostics.items)


def test_without_git_nothing_is_ignored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    assert not [*ignored_manifests(root, FOLDER)]
