"""The revision of manifests: with it a task finds out whether a deployment has put others into its folder since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from kaspr_delta.spec.loader import manifest_files
from kaspr_delta.spec.values import Value
from kaspr_delta.spec.values_file import DEFAULTS


def revision_of(folder: Path, given: Mapping[str, Value]) -> str:
    """A short text that differs if the manifests of a folder do, or their values: the ``given`` ones and the defaults.

    It depends on the files alone, not on their place. It is empty if one of them is removed meanwhile. Raises OSError
    for one that cannot be read.
    """
    files = [file for file in (*manifest_files(folder), folder / DEFAULTS) if file.is_file()]
    digest = hashlib.sha256(json.dumps(dict(given), sort_keys=True).encode())
    try:
        for name, file in sorted((file.relative_to(folder).as_posix(), file) for file in files):
            content = file.read_bytes()
            digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()[:12]
