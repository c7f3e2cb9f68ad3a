"""Manifests of a test's application, of which it writes only what it is about, and the application made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaspr_delta import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def manifests(app: str, specs: Mapping[str, str]) -> str:
    """The manifests of an application: for each ``KIND/NAME`` one with its spec, in YAML; an empty text is none."""
    documents = []
    for label, spec in specs.items():
        kind, name = label.split("/")
        head = _head(app, kind, name)
        documents.append(f"{head}spec: {spec}\n" if spec else head)
    return "---\n".join(documents)


def manifests_of(app: str, text: str) -> str:
    """The manifests of an application. In ``text`` each begins with a line ``Kind/name: spec``, or with its spec below.

    A text for ``str.format`` is formatted before.
    """

    def begin(found: re.Match[str]) -> str:
        kind, name, spec = found.groups()
        return f"---\n{_head(app, kind, name)}spec:{spec}"

    return re.sub(r"(?m)^(Kaspr\w+)/(\S+):(.*)$", begin, text)


def opened(
    spark: SparkSession, folder: Path, app: str, text: str, warehouse: str | Path | None = None, **named: Any
) -> Application:
    """Open an application whose manifests are written to a folder, on a warehouse in the folder or on another one."""
    file = folder / f"{app}.yaml"
    file.write_text(manifests_of(app, text))
    return Application.open(file, warehouse=warehouse or folder / "wh", spark=spark, **named)


def _head(app: str, kind: str, name: str) -> str:
    labels = "" if kind == "KasprApp" else f", labels: {{kaspr.io/app: {app}}}"
    return f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}{labels}}}\n"
