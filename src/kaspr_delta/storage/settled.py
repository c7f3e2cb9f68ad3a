"""Answers of a catalog or a folder that later runs need not ask for again, in files beside the checkpoints."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kaspr_delta.spec.ddl import Column, columns_of
from kaspr_delta.storage.folders import Folder

# The folders of checkpoints begin with the kind of a resource, and so never with an underscore.
_LAYOUTS, _COLUMNS, _GRANTS = "_layouts.json", "_columns.json", "_grants.json"
_NOTHING_WAITS, _OLD_REMOVED = "_nothing_waits", "_old_removed.json"


@dataclass(frozen=True, slots=True)
class Settled:
    """The tables that have got their layout, the columns of tables that were looked at, and the grants that are there.

    Also whether events say that nothing waits, and when old rows were last removed. If a file is lost, the catalog is
    asked once more. Where there is no disk for it, such as outside Databricks, nothing is kept.
    """

    folder: Folder

    def layouts(self) -> dict[str, str]:
        """By table, the fingerprint of the layout that it has got; none where the file cannot be read."""
        return self._texts(_LAYOUTS)

    def write(self, layouts: Mapping[str, str]) -> None:
        """Replace the file of the layouts."""
        self._write(_LAYOUTS, layouts)

    def columns(self) -> dict[str, tuple[Column, ...]]:
        """By table, the columns that it had when an application last looked at it and could read it."""
        found = {table: _parsed(text) for table, text in self._texts(_COLUMNS).items()}
        return {table: columns for table, columns in found.items() if columns}

    def write_columns(self, columns: Mapping[str, Sequence[Column]]) -> None:
        """Replace the file of the columns, unless it says so already. Types that no manifest may name are left out."""
        texts = {table: ", ".join(map(str, found)) for table, found in columns.items()}
        texts = {table: text for table, text in texts.items() if _parsed(text) == tuple(columns[table])}
        if texts != self._texts(_COLUMNS):
            self._write(_COLUMNS, texts)

    def has_granted(self, grants: Mapping[str, str]) -> bool:
        """Whether these grants were there at the end of an earlier run: by schema, the text of all."""
        return grants == self._texts(_GRANTS)

    def note_grants(self, grants: Mapping[str, str] | None) -> None:
        """Note that these grants are there; None: before they are looked for."""
        if grants is not None:
            self._write(_GRANTS, grants)
        else:
            with contextlib.suppress(OSError):
                self.folder.remove(_GRANTS)

    def forget(self) -> None:
        """Let the next run ask the catalog."""
        for file in (_LAYOUTS, _COLUMNS, _GRANTS, _NOTHING_WAITS, _OLD_REMOVED):
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

    def old_removed_at(self) -> datetime | None:
        """When a run has last removed the rows that were older than their retention; None if that is not known."""
        with contextlib.suppress(KeyError, ValueError):
            return datetime.fromisoformat(self._texts(_OLD_REMOVED)["at"])
        return None

    def note_old_removed(self, at: datetime) -> None:
        self._write(_OLD_REMOVED, {"at": at.isoformat()})

    def not_begun(self, run: str) -> tuple[str, datetime] | None:
        """The error for which runs of this name have not begun, and when it was noted first; None without one."""
        with contextlib.suppress(KeyError, ValueError):
            found = self._texts(_not_begun(run))
            return found["error"], datetime.fromisoformat(found["at"])
        return None

    def note_not_begun(self, run: str, error: str, at: datetime) -> None:
        self._write(_not_begun(run), {"error": error, "at": at.isoformat()})

    def note_begun(self, run: str) -> None:
        with contextlib.suppress(OSError):
            self.folder.remove(_not_begun(run))

    def _texts(self, file: str) -> dict[str, str]:
        """The texts in a file; none where it cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.folder.read(file))
            if isinstance(found, dict) and all(isinstance(text, str) for text in found.values()):
                return found
        return {}

    def _write(self, file: str, texts: Mapping[str, str]) -> None:
        # Several tasks of a job may write it at once; the last one counts.
        with contextlib.suppress(OSError):
            self.folder.write(file, json.dumps(texts, ensure_ascii=False).encode())


def _not_begun(run: str) -> str:
    return f"_not_begun-{hashlib.sha256(run.encode()).hexdigest()[:16]}.json"


def _parsed(text: str) -> tuple[Column, ...]:
    """Columns of a text; none where it has types that are unknown here."""
    with contextlib.suppress(ValueError):
        return tuple(columns_of(text))
    return ()
