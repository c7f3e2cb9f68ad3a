"""Manifests of a test's application, of which it writes only what it is about, and the application made from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kaspr_delta import Application


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


def opened(
    spark: SparkSession, folder: Path, app: str, text: str, warehouse: str | Path | None = None, **named: Any
) -> Application:
    """Open an application whose manifests are written to a folder, on a warehouse in the folder or on another one."""
    file = folder / f"{app}.yaml"
    file.write_text(manifests(app, text))
    return Application.open(file, warehouse=warehouse or folder / "wh", spark=spark, **named)
