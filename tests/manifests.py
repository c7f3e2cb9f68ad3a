"""Manifests of a test's application, of which it writes only what it is about, and the application made from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.spec.diagnostics import has_errors
from kaspr_delta.spec.loader import LoadedManifests, load_path, load_text
from tests.documented import ROOT


def manifests(app: str, text: str) -> str:
    """The manifests of an application. In ``text`` each begins with a line ``Kind/name: spec``, or with its spec below.

    A text for ``str.format`` is formatted before.
    """

    def begin(found: re.Match[str]) -> str:
        kind, name, spec = found.groups()
        labels = "" if kind == "KasprApp" else f", labels: {{kaspr.io/app: {app}}}"
        head = f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}{labels}}}"
        return f"---\n{head}\nspec:{spec}"

    return re.sub(r"(?m)^(Kaspr\w+)/(\S+):(.*)$", begin, text)


def plan_of(app: str, text: str) -> Plan:
    """The plan of an application with these manifests."""
    return _only_plan(load_text(manifests(app, text), "m.yaml"))


def plan_of_bundle(name: str) -> Plan:
    """The plan of an application in ``bundles/``."""
    return _only_plan(load_path(ROOT / "bundles" / name))


def _only_plan(loaded: LoadedManifests) -> Plan:
    (plan,), findings = build_plans(loaded)
    assert not has_errors(findings), findings
    return plan


def opened(
    spark: SparkSession, folder: Path, app: str, text: str, warehouse: str | Path | None = None, **named: Any
) -> Application:
    """Open an application whose manifests are written to a folder, on a warehouse in the folder or on another one."""
    file = folder / f"{app}.yaml"
    file.write_text(manifests(app, text))
    return Application.open(file, warehouse=warehouse or folder / "wh", spark=spark, **named)
