"""Findings of the build of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from kaspr_delta.spec.base import FieldPath, Problem
from kaspr_delta.spec.diagnostics import Finding, Location, Severity, finding_of
from kaspr_delta.spec.loader import LoadedManifest


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

    def problem(self, loaded: LoadedManifest, below: FieldPath, problem: Problem) -> None:
        """Add an error for a problem of a manifest's fields that shows only in the context of the application."""
        self.findings.append(finding_of(problem, below, loaded.positions))
