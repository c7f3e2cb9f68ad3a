"""``kaspr-delta validate`` and ``schema``: all findings about manifests, and the JSON schema for editors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from kaspr_delta.cli.target import Target
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.diagnostics import Finding, Severity, has_errors, sorted_findings
from kaspr_delta.spec.json_schema import manifest_schema


def validate(
    target: Target,
    path: Annotated[Path, typer.Argument(help="A manifest, or a folder whose *.yaml and *.yml files are checked.")],
) -> None:
    """Check manifests and tell everything that is wrong with them, each with its file, line and column.

    Nothing is run and nothing is written; all applications are checked. If the warehouse is a folder, folders that a
    `source` names are looked up: a table that resources cannot read as it is gives a warning. The exit code is 1 if
    there is an error, else 0.

    For example:

        kaspr-delta validate bundles/order-system
    """
    manifests = target.load(path)
    plans, findings = build_plans(manifests)
    if not has_errors(findings) and any(table.is_foreign for plan in plans for table in plan.tables):
        from kaspr_delta.runtime.applying import source_warnings

        findings = sorted_findings((*findings, *source_warnings(target.location, plans, manifests)))
    print_findings(findings)
    if has_errors(findings):
        raise typer.Exit(1)


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


def schema(_: Target) -> None:
    """Print the JSON schema of manifests. An editor that knows it completes fields and shows what they are for.

    Editors with a YAML language server (VS Code, Neovim, Emacs, IntelliJ …) find it by the first line of a manifest:

        # yaml-language-server: $schema=kaspr.schema.json

    For example:

        kaspr-delta schema > kaspr.schema.json
    """
    typer.echo(json.dumps(manifest_schema(), indent=2, ensure_ascii=False))
