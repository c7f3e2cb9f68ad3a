"""The declarations that tables have got, in a file beside the checkpoints: runs without a change ask no catalog."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Declared:
    """Fingerprints of declarations (``StoragePlan``), by table. If the file is lost, tables are looked at once more."""

    folder: Path

    def read(self) -> dict[str, str]:
        """The fingerprints; none where the file cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, str] = json.loads(self._file.read_text(encoding="utf-8"))
            return found
        return {}

    def write(self, fingerprints: Mapping[str, str]) -> None:
        """Replace the file. Where there is no disk for it, such as outside Databricks, nothing is kept."""
        # Several tasks of a job may write it at once; the last one counts.
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self.folder.mkdir(exist_ok=True)  # without parents: outside Databricks there is no volume
            new.write_text(json.dumps(fingerprints, ensure_ascii=False), encoding="utf-8")
            new.replace(self._file)

    @property
    def _file(self) -> Path:
        # The folders of checkpoints begin with the kind of a resource, and so never with an underscore.
        return self.folder / "_declared.json"
