"""Manifests of the application ``shop``, given as (kind, name, spec), and its plan."""

from __future__ import annotations

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.spec.diagnostics import Finding, Severity
from kaspr_delta.spec.loader import load_text

Manifest = tuple[str, str, str]
CODE = "{python: 'f = lambda value: value'}"


def planned(*manifests: Manifest, app: str = "description: A shop") -> tuple[Plan, tuple[Finding, ...]]:
    documents = [manifest("KasprApp", "shop", app), *(manifest(*one) for one in manifests)]
    (only,), findings = build_plans(load_text("---\n".join(documents), "m.yaml"))
    return only, findings


def plan(*manifests: Manifest, app: str = "description: A shop") -> Plan:
    """The plan; errors are refused."""
    built, findings = planned(*manifests, app=app)
    assert [str(finding) for finding in findings if finding.severity is Severity.ERROR] == []
    return built


def errors(*manifests: Manifest, app: str = "description: A shop") -> list[Finding]:
    return [finding for finding in planned(*manifests, app=app)[1] if finding.severity is Severity.ERROR]


def manifest(kind: str, name: str, spec: str) -> str:
    lines = "".join(f"  {line}\n" for line in spec.strip("\n").splitlines())
    labels = "" if kind == "KasprApp" else "  labels: {kaspr.io/app: shop}\n"
    return f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\n{labels}spec:\n{lines}"
