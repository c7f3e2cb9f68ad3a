"""The faults of ``faults.yaml``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
PACKAGE = Path("src", "kaspr_delta")


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong behaviour, which replacing a text of one file brings about, and the tests that find it.

    ``file`` is below ``src/kaspr_delta``; its first folder is the room. ``tests`` need no Java, ``java`` are those that
    do, ``longer`` those that ``make test-all`` alone runs: files below ``tests``, or node ids, the cheapest first.
    """

    name: str
    file: str
    text: str
    wrong: str
    tests: list[str] = field(default_factory=list)
    java: list[str] = field(default_factory=list)
    longer: list[str] = field(default_factory=list)

    @property
    def room(self) -> str:
        """The package that it is in."""
        return self.file.split("/", maxsplit=1)[0].removesuffix(".py")

    def source(self, tree: Path) -> Path:
        """Its file in a tree."""
        return tree / PACKAGE / self.file

    def applied(self, source: str) -> str | None:
        """The source with the fault; None unless its text occurs there exactly once."""
        return source.replace(self.text, self.wrong) if source.count(self.text) == 1 else None


def load() -> tuple[Fault, ...]:
    """All faults."""
    written: list[dict[str, Any]] = YAML(typ="safe").load(Path(__file__).with_name("faults.yaml"))
    return tuple(Fault(**one) for one in written)
