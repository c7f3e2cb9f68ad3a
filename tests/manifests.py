"""Manifests of an application as YAML, of which a test writes only what it is about: the specs."""

from __future__ import annotations

from collections.abc import Mapping


def manifests(app: str, specs: Mapping[str, str]) -> str:
    """The manifests of an application: for each ``KIND/NAME`` one with its spec, in YAML; an empty text is none."""
    documents = []
    for label, spec in specs.items():
        kind, name = label.split("/")
        of_app = "" if kind == "KasprApp" else f", labels: {{kaspr.io/app: {app}}}"
        head = f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}{of_app}}}\n"
        documents.append(f"{head}spec: {spec}\n" if spec else head)
    return "---\n".join(documents)
