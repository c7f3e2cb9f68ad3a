"""Manifests that a deployment leaves behind: `databricks bundle` uploads no file that git ignores."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kaspr_delta.spec.diagnostics import Finding, Location, Severity
from kaspr_delta.spec.loader import manifest_files
from kaspr_delta.spec.values_file import DEFAULTS

_BUNDLE = "databricks.yml"


def ignored_manifests(root: Path, folder: str) -> Iterator[Finding]:
    """An error for each manifest, or file of values, below a folder of the bundle's ``root`` that git ignores.

    The tasks would not find it, and never apply the others: they are not those with which their run was deployed.
    Files that ``sync.include`` of the bundle names are uploaded all the same. Without git nothing is ignored.
    """
    files = [file for file in (*manifest_files(root / folder), root / folder / DEFAULTS) if file.is_file()]
    names = sorted(file.relative_to(root).as_posix() for file in files)
    included = _included(root)
    for name in _ignored(root, names):
        if not any(fnmatch(name, pattern) for pattern in included):
            yield Finding(
                Severity.ERROR,
                Location(name, 1, 1),
                "git ignores this file, so it is not uploaded, and no task would find it",
                f"move it out of {folder}, change .gitignore, or name it in sync.include of {_BUNDLE}",
            )


def _ignored(root: Path, names: list[str]) -> list[str]:
    # As the CLI does, by the patterns alone: also files that git tracks.
    command = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
    try:
        found = subprocess.run(command, cwd=root, input="\0".join(names).encode(), capture_output=True, check=False)  # noqa: S603
    except OSError:
        return []
    return [name for name in found.stdout.decode().split("\0") if name]


def _included(root: Path) -> list[str]:
    try:
        bundle = YAML(typ="safe").load((root / _BUNDLE).read_text(encoding="utf-8"))
    except (OSError, ValueError, YAMLError):
        return []
    sync = bundle.get("sync") if isinstance(bundle, dict) else None
    include = sync.get("include") if isinstance(sync, dict) else None
    return [str(one).removeprefix("./") for one in include] if isinstance(include, list) else []
