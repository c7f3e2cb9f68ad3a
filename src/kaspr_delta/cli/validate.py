"""``kaspr-delta validate``: print all findings about manifests, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kaspr_delta.cli.findings import print_findings
from kaspr_delta.cli.target import Target
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.diagnostics import has_errors, sorted_findings
from kaspr_delta.spec.loader import load_path


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
    manifests = load_path(path)
    plans, findings = build_plans(manifests)
    if not has_errors(findings) and any(table.is_foreign for plan in plans for table in plan.tables):
        from kaspr_delta.runtime.applying import source_warnings

        location = target.location
        findings = sorted_findings((*findings, *source_warnings(location, plans, manifests)))
    print_findings(findings)
    if has_errors(findings):
        raise typer.Exit(1)
