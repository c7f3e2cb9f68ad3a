"""All files of the site: pages from the repository, generated pages, and the settings with the navigation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import typer
from typer.cli import get_docs_for_click

from kaspr_delta.cli import application
from website.manifests import KINDS
from website.pages import (
    DOCS,
    ROOT,
    linked_files,
    notebook_page,
    page_of,
    pages,
    source_page,
    with_links_of_the_site,
)
from website.scripts import FRAME_WORKER, MERMAID

SETTINGS = Path(__file__).parent / "mkdocs.yml"
STYLE = Path(__file__).parent / "style.css"
# Lines of the settings that change if the site has the scripts for searching and for pictures.
_SEARCH = "  - search"
_FENCES = "  - pymdownx.superfences"
_FENCES_WITH_PICTURES = f"""{_FENCES}:
      custom_fences:
        - name: mermaid
          class: mermaid
          format: !!python/name:pymdownx.superfences.fence_code_format"""

# The navigation. Other pages of docs/ come last in the guides, those of docs/design/ after ``_INSIDE``.
_START = ("index.md", "tutorial.md", "first-project.md")
_GUIDES = (
    "which-one.md",
    "how-to.md",
    "parameters.md",
    "testing.md",
    "commands.md",
    "what-works.md",
    "joins.md",
    "agents.md",
    "topics.md",
    "typed-tables.md",
    "web-views.md",
    "reading-results.md",
    "observability.md",
    "buckets.md",
    "clusters.md",
    "databricks.md",
    "sharing.md",
    "guarantees.md",
    "cost.md",
    "cost-of-a-batch.md",
    "benchmarks.md",
)
_REFERENCE = (
    "reference/commands.md",
    "reference/python.md",
    *(f"reference/{kind}.md" for kind in KINDS),
    "glossary.md",
)
_INSIDE = ("architecture.md", "contributing.md", "tests.md", "scenarios.md", "changelog.md")


def files_of_the_site(scripts: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
    """Files for the builder of the site, by name: ``mkdocs.yml`` and the folder ``pages``.

    Without the script that draws pictures, their source text is shown. Without the script for searching, a site can be
    searched only if it is served, not if it is opened from a disk.
    """
    scripts = scripts or {}
    written = {f"pages/{name}": content for name, content in _pages()}
    written["pages/style.css"] = STYLE.read_bytes()
    written |= {f"pages/{name}": script for name, script in scripts.items()}
    settings = SETTINGS.read_text()
    if MERMAID.file in scripts:
        settings = settings.replace(_FENCES, _FENCES_WITH_PICTURES) + f"\nextra_javascript: [{MERMAID.file}]\n"
    if FRAME_WORKER.file in scripts:
        settings = settings.replace(_SEARCH, f"{_SEARCH}\n  - offline")
    return {"mkdocs.yml": f"{settings}\n{navigation()}".encode(), **written}


def navigation() -> str:
    """The navigation, as YAML."""
    design = [page_of(file) for file in _docs() if file.startswith(f"{DOCS}/design/")]
    other_docs = [page for page in map(page_of, _docs()) if page not in {*_START, *_GUIDES, *_REFERENCE, *design}]
    sections = {
        "Start": _START,
        "Guides": (*_GUIDES, *other_docs),
        "Examples": sorted(page for page in pages().values() if page.startswith("examples/")),
        "Notebooks": [page_of(file) for file in _notebooks()],
        "Reference": _REFERENCE,
        "Inside": (*_INSIDE, *design),
    }
    lines = ["nav:"]
    for title, entries in sections.items():
        lines += [f"  - {title}:", *(f"      - {page}" for page in entries)]
    return "\n".join(lines) + "\n"


def _pages() -> Iterator[tuple[str, bytes]]:
    markdown = [*pages(), *_docs()]
    for file in markdown:
        yield page_of(file), with_links_of_the_site((ROOT / file).read_text(), file).encode()
    for path in sorted((ROOT / DOCS).rglob("*")):
        if path.is_file() and path.suffix != ".md":
            yield path.relative_to(ROOT / DOCS).as_posix(), path.read_bytes()
    for file in _notebooks():
        yield page_of(file), notebook_page(file).encode()
    yield "reference/commands.md", _commands_page().encode()
    for file in sorted({linked for one in markdown for linked in linked_files(one)}):
        if page_of(file).startswith("source/") and (ROOT / file).is_file():
            yield page_of(file), source_page(file).encode()


def _commands_page() -> str:
    """The reference of the command line, as ``--help`` prints it."""
    commands = typer.main.get_command(application)
    return get_docs_for_click(obj=commands, ctx=typer.Context(commands), name="kaspr-delta", title="Commands")


def _docs() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / DOCS).rglob("*.md"))


def _notebooks() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").glob("*.ipynb"))
