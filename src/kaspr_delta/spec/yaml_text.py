"""Files of YAML: which hold fixtures, their names in findings, and the documents of their text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_LINE_END = re.compile(r"\r\n|\r|\n")
_SEPARATOR = re.compile(r"^(---|\.\.\.)(?=\s|$)")
_NOTHING = re.compile(r"^\s*(#.*)?$|^%")


def is_of_tests(name: str) -> bool:
    """Whether a file of this name holds fixtures, not manifests."""
    return name.endswith(".test.yaml")


def shown_path(path: Path) -> str:
    """The name of a file in findings: relative below the current directory, otherwise as given."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        return str(path)


def documents(text: str) -> Iterator[tuple[int, list[str]]]:
    """The documents of a text: the number of lines before each, and its own lines.

    ``---`` at the beginning of a line always separates documents, in block text too, as YAML defines it.
    """
    start, lines = 0, list[str]()
    for number, line in enumerate(_LINE_END.split(text)):
        if _SEPARATOR.match(line):
            yield from _trimmed(start, lines)
            # Text behind the dashes belongs to the document and keeps its column.
            start, lines = number, [line.replace("---", "   ", 1) if line.startswith("---") else ""]
        else:
            lines.append(line)
    yield from _trimmed(start, lines)


def _trimmed(start: int, lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """The document without the comments before it, so that its text begins at its location. No item if it is empty."""
    for skipped, line in enumerate(lines):
        if not _NOTHING.match(line):
            yield start + skipped, lines[skipped:]
            return
