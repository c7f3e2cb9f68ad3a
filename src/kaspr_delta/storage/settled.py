"""Answers of a catalog that later runs need not ask for again, in files beside the checkpoints."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settled:
    """The tables that have got their layout, and whether events say that nothing waits.

    If a file is lost, the catalog is asked once more. Where there is no disk for it, such as outside Databricks,
    nothing is kept.
    """

    folder: Path

    def layouts(self) -> dict[str, str]:
        """By table, the fingerprint of the layout that it has got; none where the file cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, str] = json.loads(self._layouts.read_text(encoding="utf-8"))
            return found
        return {}

    def write(self, layouts: Mapping[str, str]) -> None:
        """Replace the file of the layouts."""
        # Several tasks of a job may write it at once; the last one counts.
        new = self._layouts.with_name(f"{self._layouts.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self.folder.mkdir(exist_ok=True)  # without parents: outside Databricks there is no volume
            new.write_text(json.dumps(layouts, ensure_ascii=False), encoding="utf-8")
            new.replace(self._layouts)

    def forget(self) -> None:
        """Let the next run ask the catalog."""
        for file in (self._layouts, self._nothing_waits):
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)

    @property
    def nothing_waits(self) -> bool:
        """Whether the last event of each resource that has waited says that it no longer waits."""
        with contextlib.suppress(OSError):
            return self._nothing_waits.exists()
        return False

    def note_waiting(self, *, nothing: bool) -> None:
        """Note whether nothing waits: before the first event that something waits, after the last one that it ended."""
        with contextlib.suppress(OSError):
            if nothing:
                self._nothing_waits.touch()
            else:
                self._nothing_waits.unlink(missing_ok=True)

    # The folders of checkpoints begin with the kind of a resource, and so never with an underscore.

    @property
    def _layouts(self) -> Path:
        return self.folder / "_layouts.json"

    @property
    def _nothing_waits(self) -> Path:
        return self.folder / "_nothing_waits"
