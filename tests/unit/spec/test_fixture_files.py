from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta.spec.fixture_files import load_fixtures
from kaspr_delta.spec.loader import load_path
from tests.documented import Block, blocks
from tests.manifests import manifests

ROOT = Path(__file__).parents[3]


def findings_of(folder: Path, text: str) -> list[str]:
    file = folder / "x.test.yaml"
    file.write_text(text)
    _, findings = load_fixtures(folder)
    return [str(one).removeprefix(f"{file}:") for one in findings]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("test: a rule\n", "1:1: error: required field 'then' is missing at the top level (what has to come out)"),
        (
            "test: a rule\ngiven:\n  topic: {}\nthen: {}\n",
            "3:3: error: unknown field 'topic' in given (did you mean 'topics'?)",
        ),
        (
            "test: a rule\ngiven:\n  tables:\n    orders:\n      - {file: a.csv, key: 1}\nthen: {}\n",
            "5:16: error: 'file' stands alone: its rows have keys and values (remove 'key')",
        ),
        (
            "test: a rule\ngiven:\n  tables:\n    orders:\n      - {}\nthen: {}\n",
            "5:9: error: this has neither a key, nor a value, nor a file (write {key: …, value: …})",
        ),
        ("test: 5\nthen: {}\n", "1:7: error: 'test' must be text, found the number 5 (put it in quotes: \"5\")"),
        ("- a\n", "1:1: error: a fixture is a mapping with test, given, when and then, found a list"),
        ("test: [\n", "2:1: error: a value is missing here (write one, or remove the key)"),
    ],
)
def test_a_mistake_is_a_finding_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    assert findings_of(tmp_path, text) == [said]


def test_a_file_has_several_fixtures_and_a_folder_has_those_of_its_subfolders(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / ".venv").mkdir()
    text = "test: one\nthen: {}\n---\n# a comment\ntest: two\nthen: {}\n"
    for folder in ("shop", ".venv"):
        (tmp_path / folder / "a.test.yaml").write_text(text)
    fixtures, findings = load_fixtures(tmp_path)
    assert not findings
    assert [(str(one), one.location.line, one.folder.name) for one in fixtures] == [
        ("one", 1, "shop"),
        ("two", 5, "shop"),
    ]
    assert len(load_fixtures(tmp_path / "shop" / "a.test.yaml")[0]) == 2


def test_a_file_that_is_too_large_is_refused_as_a_whole(tmp_path: Path) -> None:
    small = "test: a rule\nthen: {}\n"
    (said,) = findings_of(tmp_path, f"{small}---\n# {'x' * 1_000_000}\n{small}")
    assert "this file has more than 1,000,000 characters" in said
    assert not load_fixtures(tmp_path)[0]


def test_each_file_has_its_own_limit_and_files_of_values_are_no_fixtures(tmp_path: Path) -> None:
    rows = "".join(f"      - {{key: {number}, value: 1}}\n" for number in range(4_000))
    for name in ("a", "b"):
        (tmp_path / f"{name}.test.yaml").write_text(f"test: {name}\ngiven:\n  tables:\n    orders:\n{rows}then: {{}}\n")
    (tmp_path / "values.test.yaml").write_text("bucket: x\n")
    loaded, findings = load_fixtures(tmp_path)
    assert (len(loaded), findings) == (2, ())


def test_fixtures_are_no_manifests(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(manifests("shop", "KasprApp/shop: {}\n"))
    (tmp_path / "app.test.yaml").write_text("test: one\nthen: {}\n")
    loaded = load_path(tmp_path)
    assert (len(loaded.manifests), loaded.findings) == (1, ())


@pytest.mark.parametrize("block", list(blocks(ROOT / "docs" / "testing.md", "yaml")), ids=str)
def test_fixtures_in_the_documentation_are_valid(tmp_path: Path, block: Block) -> None:
    assert findings_of(tmp_path, block.text) == []


def test_every_bundle_has_a_fixture() -> None:
    fixtures, findings = load_fixtures(ROOT / "bundles")
    assert not findings
    assert {one.folder.name for one in fixtures} == {one.name for one in (ROOT / "bundles").iterdir() if one.is_dir()}
