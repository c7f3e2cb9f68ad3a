from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kaspr_delta.control.documents import Document, applied, loaded
from kaspr_delta.errors import UsageError
from kaspr_delta.runtime.applying import updated
from kaspr_delta.spec.loader import load_path
from tests.manifests import manifests


def write(path: Path, *names: str) -> list[Document]:
    """Write a file of tables; its documents."""
    path.write_text(manifests("shop", "".join(f"KasprTable/{name}: {{}}\n" for name in names)))
    return [Document.of(manifest) for manifest in load_path(path).manifests]


def names(documents: list[Document]) -> list[str]:
    return [document.name for document in documents]


def test_resources_from_another_file_stay_and_applying_the_same_again_changes_nothing(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    first = applied([], write(one, "orders"), one)
    assert names(applied(first, write(two, "products"), two)) == ["orders", "products"]
    assert applied(first, write(one, "orders"), one) == first


def test_resources_missing_from_the_applied_file_or_folder_are_removed(tmp_path: Path) -> None:
    one = tmp_path / "one.yaml"
    first = applied([], write(one, "orders", "old-name"), one)
    assert names(applied(first, write(one, "orders", "new-name"), one)) == ["orders", "new-name"]
    assert names(applied(first, write(one, "only"), tmp_path)) == ["only"]


def test_a_resource_that_moves_to_another_file_is_there_once(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    first = applied([], write(one, "orders", "products"), one)
    second = applied(first, write(two, "products"), two)
    assert [(document.name, Path(document.file).name) for document in second] == [
        ("orders", "one.yaml"),
        ("products", "two.yaml"),
    ]


def test_an_application_takes_no_resource_from_another_one_in_its_schema(tmp_path: Path) -> None:
    def of(application: str, folder: str, name: str = "products") -> list[Document]:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "t.yaml").write_text(manifests(application, f"KasprTable/{name}: {{}}\n"))
        return [Document.of(one) for one in load_path(tmp_path / folder).manifests]

    first = of("shop", "a")
    with pytest.raises(UsageError, match=r"b/t.yaml:\d+: KasprTable 'products' of this schema is the application shop"):
        updated(first, of("desk", "b"), tmp_path / "b")
    with pytest.raises(UsageError, match="kaspr-delta delete table products --app shop"):
        updated(first, of("desk", "b"), None)
    assert names(updated(first, of("desk", "b", "offers"), tmp_path / "b")) == ["products", "offers"]
    # Its label was changed where it stands.
    moved = updated(first, of("desk", "a"), tmp_path / "a")
    assert [one.application for one in moved] == ["desk"]
    # It moved within a folder that holds both applications.
    assert names(updated(first, of("desk", "b"), tmp_path)) == ["products"]


def test_manifests_with_an_origin_are_the_same_wherever_they_lie(tmp_path: Path) -> None:
    documents: list[Document] = []
    for place, tables in (("first", ("orders", "old")), ("second", ("orders",)), ("third", ("orders",))):
        folder = tmp_path / place / "bundles" / "shop"
        folder.mkdir(parents=True)
        write(folder / "tables.yaml", *tables)
        found = load_path(folder, "bundles/shop").manifests
        before, new = documents, [Document.of(one, in_place=place == "first") for one in found]
        if place == "first":  # an earlier version kept absolute paths
            new = [replace(one, origin=str(folder / "tables.yaml")) for one in new]
        documents = applied(before, new, Path("bundles/shop"))
    assert names(documents) == ["orders"]
    assert (documents[0].origin, documents[0].file) == ("bundles/shop/tables.yaml", "bundles/shop/tables.yaml")
    assert documents == before


def test_documents_load_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "tables.yaml"
    documents = write(path, "orders", "products")
    assert [str(m.location) for m in loaded(documents).manifests] == [f"{path}:2:1", f"{path}:7:1"]
