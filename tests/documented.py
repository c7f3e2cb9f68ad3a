"""The fenced blocks of the project's Markdown, with their titles, and console commands with their output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARKDOWN = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bundles/*/README.md"), *ROOT.glob("tests/*.md")]
)

_FENCE = re.compile(
    r'^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^(?P=indent)```$',
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. With a title it is a file of that name."""

    file: Path
    line: int
    language: str
    title: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT).as_posix()}:{self.line}"

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """The commands of a console block, each with the lines of output below it."""
        for part in re.split(r"(?m)^\$ ", self.text)[1:]:
            command, *documented_lines = part.strip().splitlines()
            yield command, documented_lines


def blocks(file: Path, *languages: str) -> Iterator[Block]:
    """The fenced blocks of a file, in order; of some languages, or all."""
    text = file.read_text()
    for found in _FENCE.finditer(text):
        if not languages or found["language"] in languages:
            lines = [line.removeprefix(found["indent"]) for line in found["text"].splitlines()]
            number = text.count("\n", 0, found.start()) + 1
            yield Block(file, number, found["language"], found["title"], "\n".join(lines) + "\n")


def output_matches(documented_lines: list[str], printed: list[str]) -> bool:
    """Whether the printed lines match the documented ones. ``…`` matches any text; trailing blanks are ignored."""
    patterns = [".*".join(map(re.escape, line.rstrip().split("…"))) for line in documented_lines]
    return len(documented_lines) == len(printed) and all(
        map(re.fullmatch, patterns, (line.rstrip() for line in printed))
    )
