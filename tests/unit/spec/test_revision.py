from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kaspr_delta.spec.revision import revision_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    (made / "tables").mkdir(parents=True)
    (made / "app.yaml").write_text("kind: KasprApp\n")
    (made / "tables" / "orders.yml").write_text("kind: KasprTable\n")
    (made / "values.yaml").write_text("region: eu\n")
    (made / "values.prod.yaml").write_text("region: us\n")
    (made / "shop.test.yaml").write_text("given: {}\n")
    return made


def test_a_copy_of_the_files_elsewhere_has_the_same_revision(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert revision_of(tmp_path / "elsewhere", {"a": 1, "b": "x"}) == revision_of(folder, {"b": "x", "a": 1})


def test_files_that_hold_no_manifest_and_no_default_are_no_part_of_it(folder: Path) -> None:
    before = revision_of(folder, {})
    for name in ("values.prod.yaml", "shop.test.yaml", "README.md", ".hidden.yaml"):
        (folder / name).write_text("changed: true\n")
    assert revision_of(folder, {}) == before


def test_manifests_their_names_and_their_values_change_it(folder: Path) -> None:
    seen = {revision_of(folder, {}), revision_of(folder, {"region": "us"}), revision_of(folder, {"region": "eu"})}
    (folder / "app.yaml").write_text("kind: KasprApp \n")
    seen.add(revision_of(folder, {}))
    (folder / "values.yaml").write_text("region: us\n")
    seen.add(revision_of(folder, {}))
    (folder / "app.yaml").rename(folder / "apps.yaml")
    seen.add(revision_of(folder, {}))
    (folder / "tables" / "orders.yml").unlink()
    seen.add(revision_of(folder, {}))
    assert len(seen) == 7


def test_a_file_that_is_removed_meanwhile_makes_it_unknown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[OSError] = [FileNotFoundError(), PermissionError()]

    def failing(_: Path) -> bytes:
        raise errors.pop(0)

    monkeypatch.setattr(Path, "read_bytes", failing)
    assert revision_of(folder, {}) == ""
    with pytest.raises(PermissionError):
        revision_of(folder, {})
