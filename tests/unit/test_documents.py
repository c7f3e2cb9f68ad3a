"""Markdown and the site: code blocks are valid YAML, Python or JSON, and links lead to existing targets."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.loader import load_text
from kaspr_delta.spec.manifest import KINDS
from tests.documented import MARKDOWN, ROOT, Block, blocks
from website.pages import linked_files, page_of
from website.references import references
from website.site import files_of_the_site

# The first lines of a manifest, for code blocks that show only its ``spec``.
BEGINNING = "apiVersion: kaspr.io/v1alpha1\nkind: {}\nmetadata: {{name: shown, labels: {{kaspr.io/app: shown}}}}\n"


@cache
def site() -> dict[str, bytes]:
    return files_of_the_site()


def shown(*languages: str) -> list[Block]:
    """Code blocks of all Markdown files. If several in a file have the same title, only the last."""
    every = [block for file in MARKDOWN for block in blocks(file, *languages)]
    last = {(block.file, block.title): block for block in every}
    return [block for block in every if block.title is None or last[block.file, block.title] is block]


def errors(text: str, block: Block) -> list[str]:
    found = load_text(text, str(block)).findings
    return [str(finding) for finding in found if finding.severity is Severity.ERROR]


def data_of(block: Block) -> Iterator[Any]:
    yield from YAML(typ="safe", pure=True).load_all(block.text)


def manifests(block: Block) -> list[str]:
    """The block with the lines of a manifest that it lacks: one text, or one per kind; none if it is other YAML."""
    (first, *_) = data_of(block)
    if str(first.get("apiVersion")).startswith("kaspr.io"):
        return [block.text]
    beginnings = (
        f"apiVersion: kaspr.io/v1alpha1\n{block.text}",
        *(BEGINNING.format(kind) + block.text for kind in KINDS),
    )
    return [beginnings[0]] if "kind" in first else list(beginnings[1:]) if "spec" in first else []


@pytest.mark.parametrize("block", [block for block in shown("yaml") if manifests(block)], ids=str)
def test_manifests_in_markdown_are_valid(block: Block) -> None:
    ways = [errors(text, block) for text in manifests(block)]
    assert [] in ways, ways[0]


def test_most_yaml_blocks_in_markdown_are_manifests() -> None:
    every = shown("yaml")
    assert len([block for block in every if manifests(block)]) > len(every) / 2


@pytest.mark.parametrize("block", shown("python"), ids=str)
def test_python_blocks_in_markdown_can_be_compiled(block: Block) -> None:
    without_magics = re.sub(r"(?m)^%.*$", "", textwrap.dedent(block.text))  # such as %pip, in notebooks
    compile(without_magics, str(block), "exec")


@pytest.mark.parametrize("block", shown("json"), ids=str)
def test_json_blocks_in_markdown_are_lines_of_json(block: Block) -> None:
    for line in block.text.splitlines():
        json.loads(line)


@pytest.mark.parametrize("file", MARKDOWN, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_links_between_markdown_files_lead_to_existing_files(file: Path) -> None:
    missing = [target for target in linked_files(file.relative_to(ROOT).as_posix()) if not (ROOT / target).exists()]
    assert missing == []


def test_links_of_the_site_lead_to_its_pages_and_headings() -> None:
    files = site()
    wrong = []
    for name, content in files.items():
        if not name.endswith(".md") or name.startswith("pages/source/"):
            continue
        text = re.sub(r"(?ms)^ *(`{3,}).*?^ *\1", "", content.decode())
        for target, anchor in re.findall(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?\)", text):
            page = str(Path(name).parent / target) if target else name
            page = str(Path("/", page).resolve())[1:]
            if page not in files or (anchor and anchor not in headings(files[page].decode())):
                wrong.append((name, target, anchor))
    assert wrong == []


def headings(text: str) -> set[str]:
    """The anchors of a page."""
    anchors = set()
    for title in re.findall(r"(?m)^#+ (.+)$", text):
        own = re.search(r"\{ #(\S+) \}$", title)
        words = re.sub(r"[^\w\s-]", "", title.lower()).strip()
        anchors.add(own[1] if own else re.sub(r"[\s-]+", "-", words))
    return anchors


def test_the_reference_has_a_section_for_every_command_and_every_kind() -> None:
    files = site()
    commands = files["pages/reference/commands.md"].decode()
    assert "kaspr-delta run --only join/orders-products-join" in commands
    assert re.search(r"`--progress .auto\|live\|plain\|json.`", commands)
    for kind in KINDS:
        assert "## spec" in files[f"pages/reference/{kind}.md"].decode()
    assert page_of("databricks.yml") == "source/databricks.yml.md"
    assert "pages/source/databricks.yml.md" in files


@pytest.mark.parametrize("file", references())
def test_a_reference_is_that_of_the_code(file: str) -> None:
    """If it fails, run ``python -m website.references``."""
    assert (ROOT / file).read_text() == references()[file]


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_field_in_the_reference_has_a_description_and_a_type(kind: str) -> None:
    page = site()[f"pages/reference/{kind}.md"].decode()
    rows = re.findall(r"(?m)^\| `(\w+)`[^|]*\| (.*?) \| (.*) \|$", page)
    assert rows
    assert [name for name, _, meaning in rows if not meaning] == []
    assert [name for name, kind_of, _ in rows if kind_of == "anything"] == []
