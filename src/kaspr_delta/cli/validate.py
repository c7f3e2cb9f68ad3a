"""``kaspr-delta validate``: print all findings about manifests, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kaspr_delta.cli.findings import print_findings
from kaspr_delta.cli.options import AppOption, WarehouseOption
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.diagnostics import has_errors
from kaspr_delta.spec.loader import load_path


def validate(
    path: Annotated[Path, typer.Argument(help="A manifest, or a folder whose *.yaml and *.yml files are checked.")],
    warehouse: WarehouseOption = None,  # noqa: ARG001  every command takes both
    app: AppOption = None,  # noqa: ARG001
) -> None:
    """Check manifests and tell everything that is wrong with them, each with its file, line and column.

    Nothing is run and nothing is written: --warehouse and --app change nothing here, all applications are checked. The
    exit code is 1 if there is an error, else 0.

    For example:

        kaspr-delta validate bundles/order-system
    """
    _, findings = build_plans(load_path(path))
    print_findings(findings)
    if has_errors(findings):
        raise typer.Exit(1)
