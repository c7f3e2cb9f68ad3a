"""Files of YAML: which hold fixtures, their names in findings, their text, and the documents in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.limits import LONGEST_FILE

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


def text_of_file(path: Path, at: Location, called: str, hint: str = "") -> str | Finding:
    """The text of a file, or a finding that it cannot be read, where it is ``called`` so, or is too large."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(LONGEST_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return Finding(Severity.ERROR, at, f"{called} cannot be read: {reason}")
    if len(text) > LONGEST_FILE:
        return Finding(Severity.ERROR, at, f"this file has more than {LONGEST_FILE:,} characters", hint)
    return text


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
