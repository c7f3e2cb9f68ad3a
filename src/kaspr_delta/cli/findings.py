"""Findings on a terminal or in a pipe: one line each, and a last line that counts them."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from kaspr_delta.spec.diagnostics import Finding, Severity

_COLOURS = {Severity.ERROR: typer.colors.RED, Severity.WARNING: typer.colors.YELLOW, Severity.NOTE: typer.colors.BLUE}


def print_findings(findings: Iterable[Finding], *, to_stderr: bool = False) -> None:
    """Print every finding and the summary. Colours appear on a terminal only."""
    listed = tuple(findings)
    for finding in listed:
        name = finding.severity.name.lower()
        coloured = typer.style(name, fg=_COLOURS[finding.severity], bold=True)
        location = f"{finding.location}: "
        typer.echo(location + str(finding).removeprefix(location).replace(name, coloured, 1), err=to_stderr)
    typer.echo(summary(listed), err=to_stderr)


def summary(findings: Iterable[Finding]) -> str:
    """How many there are of each severity, the heaviest first.

    >>> summary([])
    'no findings'
    """
    severities = [finding.severity for finding in findings]
    counted = [(severities.count(severity), severity.name.lower()) for severity in sorted(Severity, reverse=True)]
    parts = [f"{count} {name}" if count == 1 else f"{count} {name}s" for count, name in counted if count]
    return ", ".join(parts) or "no findings"
