"""Findings about manifests: values with a location, collected first and shown together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kaspr_delta.spec.base import FieldPath, Problem

_LONGEST = 1_000


class Severity(IntEnum):
    """The severity of a finding: an error refuses the application, a warning makes a resource wait, a note informs."""

    NOTE = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A location in a manifest file; ``line`` and ``column`` count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Finding:
    """An error, warning or note about a manifest.

    ``message`` says what is wrong and what is expected. ``hint`` says what to do, or names a similar word.
    """

    severity: Severity
    location: Location
    message: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({_shortened(self.hint)})" if self.hint else ""
        return f"{self.location}: {self.severity.name.lower()}: {_shortened(self.message)}{hint}"


def _shortened(text: str) -> str:
    """The text without its middle if it is long, because it quotes a long value of a manifest."""
    end = (_LONGEST - 1) // 2
    return text if len(text) <= _LONGEST else f"{text[:end]}…{text[-end:]}"


def sorted_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without repetitions, sorted by location; at one location the more severe finding comes first."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda f: (f.location, -f.severity, f.message)))


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether one of the findings refuses the application."""
    return any(finding.severity is Severity.ERROR for finding in findings)


@dataclass(frozen=True, slots=True)
class FieldLocation:
    """The locations of a key and its value; an element of a list has its value's location as key.

    ``style`` is the style of the value in the YAML: ``|``, ``>``, a quote or None. ``written`` is the text of a value
    without quotes, as it stands there: ``007``, not 7. ``is_plain``: it is a text, a number or a truth value.
    """

    key: Location
    value: Location
    style: str | None = None
    written: str | None = None
    is_plain: bool = False

    @property
    def text_line(self) -> int:
        """The line on which the value's text begins: for a block, the line after its ``|`` or ``>``."""
        return self.value.line + 1 if self.style in {"|", ">"} else self.value.line


@dataclass(frozen=True, slots=True)
class Positions:
    """The locations of a document by field path; the document itself has the empty path."""

    locations: Mapping[FieldPath, FieldLocation]

    def location(self, path: FieldPath) -> FieldLocation:
        """The location of a field, or of its nearest parent that exists."""
        while path not in self.locations:
            path = path[:-1]
        return self.locations[path]

    def point(self, path: FieldPath) -> Location:
        """The location of a value that is neither absent nor a mapping or list; of other fields, that of the key."""
        return self.value(path) if path in self.locations and self.locations[path].is_plain else self.key(path)

    def key(self, path: FieldPath) -> Location:
        """The location of a field's key, or of its nearest parent's key."""
        return self.location(path).key

    def value(self, path: FieldPath) -> Location:
        """The location where a field's value begins. For an absent field: the nearest parent's key."""
        return self.locations[path].value if path in self.locations else self.key(path)

    def written(self, path: FieldPath) -> str | None:
        """The text of a value that has no quotes; None for other values, and for an absent field."""
        return self.locations[path].written if path in self.locations else None


def finding_of(problem: Problem, path: FieldPath, positions: Positions) -> Finding:
    """The error about a problem of the mapping at ``path``."""
    message = problem.message
    if problem.other is not None:
        message = message.replace("{other}", str(positions.point((*path, *problem.other))))
    return Finding(Severity.ERROR, positions.point((*path, *problem.at)), message, problem.hint)


@dataclass(slots=True)
class Report:
    """Collects findings. Nothing is raised, so that all findings are shown at once."""

    findings: list[Finding] = field(default_factory=list)

    def error(self, location: Location, message: str, hint: str = "") -> None:
        """Add an error: the application is refused."""
        self.findings.append(Finding(Severity.ERROR, location, message, hint))

    def warning(self, location: Location, message: str, hint: str = "") -> None:
        """Add a warning: a resource waits, or runs otherwise than intended."""
        self.findings.append(Finding(Severity.WARNING, location, message, hint))

    def note(self, location: Location, message: str, hint: str = "") -> None:
        """Add a note: good to know, no harm."""
        self.findings.append(Finding(Severity.NOTE, location, message, hint))

    def problem(self, positions: Positions, below: FieldPath, problem: Problem) -> None:
        """Add an error for a problem of a manifest's fields that shows only in the context of the application."""
        self.findings.append(finding_of(problem, below, positions))
