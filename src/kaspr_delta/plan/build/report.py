"""Findings as they come up while a plan is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from kaspr_delta.spec.base import FieldPath, Problem
from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.loader import LoadedManifest


@dataclass(slots=True)
class Report:
    """Collects findings: nothing is raised, so that everything is said in one go."""

    findings: list[Finding] = field(default_factory=list)

    def error(self, location: Location, message: str, hint: str = "") -> None:
        """Say what refuses the application."""
        self.findings.append(Finding(Severity.ERROR, location, message, hint))

    def warning(self, location: Location, message: str, hint: str = "") -> None:
        """Say what makes a resource wait, or run otherwise than meant."""
        self.findings.append(Finding(Severity.WARNING, location, message, hint))

    def note(self, location: Location, message: str, hint: str = "") -> None:
        """Say what is good to know."""
        self.findings.append(Finding(Severity.NOTE, location, message, hint))

    def problem(self, source: LoadedManifest, below: FieldPath, problem: Problem) -> None:
        """Say a rule between the fields of a manifest that shows only beside others."""
        message = problem.message
        if problem.other is not None:
            message = message.replace("{other}", str(source.locate_value(*below, *problem.other)))
        self.error(source.locate(*below, *problem.at), message, problem.hint)
