"""Answers of a catalog or a folder that later runs need not ask for again, in files beside the checkpoints."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from kaspr_delta.storage.folders import Folder

# The folders of checkpoints begin with the kind of a resource, and so never with an underscore.
_LAYOUTS = "_layouts.json"
_NOTHING_WAITS = "_nothing_waits"


@dataclass(frozen=True, slots=True)
class Settled:
    """The tables that have got their layout, and whether events say that nothing waits.

    If a file is lost, the catalog is asked once more. Where there is no disk for it, such as outside Databricks,
    nothing is kept.
    """

    folder: Folder

    def layouts(self) -> dict[str, str]:
        """By table, the fingerprint of the layout that it has got; none where the file cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, str] = json.loads(self.folder.read(_LAYOUTS))
            return found
        return {}

    def write(self, layouts: Mapping[str, str]) -> None:
        """Replace the file of the layouts."""
        # Several tasks of a job may write it at once; the last one counts.
        with contextlib.suppress(OSError):
            self.folder.write(_LAYOUTS, json.dumps(layouts, ensure_ascii=False).encode())

    def forget(self) -> None:
        """Let the next run ask the catalog."""
        for file in (_LAYOUTS, _NOTHING_WAITS):
            with contextlib.suppress(OSError):
                self.folder.remove(file)

    @property
    def nothing_waits(self) -> bool:
        """Whether the last event of each resource that has waited says that it no longer waits."""
        with contextlib.suppress(OSError):
            return self.folder.has_file(_NOTHING_WAITS)
        return False

    def note_waiting(self, *, nothing: bool) -> None:
        """Note whether nothing waits: before the first event that something waits, after the last one that it ended."""
        with contextlib.suppress(OSError):
            if nothing:
                self.folder.write(_NOTHING_WAITS, b"")
            else:
                self.folder.remove(_NOTHING_WAITS)
