"""Manifests that a deployment may leave behind: `databricks bundle` uploads no file that git ignores."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.loader import manifest_files
from kaspr_delta.spec.values_file import DEFAULTS


def ignored_manifests(root: Path, folder: str, values: str = "") -> Iterator[Finding]:
    """A warning for each manifest, or file of values, below a folder of the bundle's ``root`` that git ignores.

    ``values`` is the deployment's own file of values. Without such a file no task would apply the others: they are not
    those with which its run was deployed. Only the CLI knows whether the bundle's ``sync.include`` names the file.
    Without git nothing is ignored.
    """
    of_values = (root / folder / name for name in dict.fromkeys((DEFAULTS, values)) if name)
    files = [file for file in (*manifest_files(root / folder), *of_values) if file.is_file()]
    for name in _ignored(root, sorted(file.relative_to(root).as_posix() for file in files)):
        yield Finding(
            Severity.WARNING,
            Location(name, 1, 1),
            "git ignores this file, so it is not uploaded, and no task applies the manifests without it",
            f"move it out of {folder}, change .gitignore, or name it in sync.include of the bundle",
        )


def _ignored(root: Path, names: list[str]) -> list[str]:
    # As the CLI does, by the patterns alone: also files that git tracks.
    command = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
    try:
        found = subprocess.run(command, cwd=root, input="\0".join(names).encode(), capture_output=True, check=False)  # noqa: S603
    except OSError:
        return []
    return [name for name in found.stdout.decode().split("\0") if name]
