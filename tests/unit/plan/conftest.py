from __future__ import annotations

from collections.abc import Callable

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.loader import load_text

Manifest = tuple[str, str, str]


@pytest.fixture
def plan() -> Callable[..., Plan]:
    """Plans the application ``shop`` of resources given as (kind, name, spec), and refuses errors."""

    def build(*manifests: Manifest, config: str = "{}") -> Plan:
        documents = [_manifest("KasprApp", "shop", f"config: {config}"), *(_manifest(*one) for one in manifests)]
        plans, findings = build_plans(load_text("---\n".join(documents), "m.yaml"))
        assert [str(finding) for finding in findings if finding.severity is Severity.ERROR] == []
        (only,) = plans
        return only

    return build


def _manifest(kind: str, name: str, spec: str) -> str:
    lines = "".join(f"  {line}\n" for line in spec.strip("\n").splitlines())
    labels = "" if kind == "KasprApp" else "  labels: {kaspr.io/app: shop}\n"
    return f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\n{labels}spec:\n{lines}"
