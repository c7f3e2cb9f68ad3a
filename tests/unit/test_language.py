"""Rules for texts: docstrings, names that were given up, the length of pages, and modules that pages name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "kaspr_delta"
ROOMS = ("src/kaspr_delta", "tests", "benchmarks", "bundles", "resources", "website")
GIVEN_UP = (
    "LiveTable",
    "StateBehind",
    "ResourceStanding",
    "query_of",
    "TableReads",
    "told",
    "DeltaRsReads",
    "LocalSystemTables",
    "append_held",
    "merged_here",
    "delta_rs_reads",
    "far_times",
    "commit_rows",
)


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of all Python files, as pairs of place and text."""
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text is not None:
                    line = 1 if isinstance(node, ast.Module) else node.lineno
                    yield f"{path.relative_to(ROOT)}:{line}", text


def test_no_docstring_begins_with_what() -> None:
    found = dict(docstrings())
    assert [place for place, text in found.items() if re.match(r"(What|Whatever|Who|Whoever)\b", text)] == []
    assert {place.split("/")[0] for place in found} == {room.split("/")[0] for room in ROOMS}


def test_names_that_were_given_up_are_not_used() -> None:
    old = re.compile(rf"\b({'|'.join(GIVEN_UP)})\b")
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "ARCHITECTURE.md", ROOT / "README.md"]
    found = {file.relative_to(ROOT).as_posix(): old.findall(file.read_text()) for file in files}
    assert {file: names for file, names in found.items() if names} == {}


def test_readme_and_architecture_stay_short() -> None:
    words = {name: len((ROOT / name).read_text().split()) for name in ("README.md", "ARCHITECTURE.md")}
    assert words["README.md"] <= 900
    assert words["ARCHITECTURE.md"] <= 2_000


def test_modules_that_pages_name_exist() -> None:
    modules = [path.relative_to(ROOT).as_posix() for path in (*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"))]
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "ARCHITECTURE.md", ROOT / "tests" / "README.md"]
    named = {(page.name, name) for page in pages for name in re.findall(r"`([\w/]+\.py)`", page.read_text())}
    assert {one for one in named if not any(f"/{module}".endswith(f"/{one[1]}") for module in modules)} == set()
    assert len(named) > 50
