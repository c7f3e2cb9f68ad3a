"""A commit of a Delta table, and the number of rows that its operation changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# The metrics of Spark and of delta-rs by operation. The output of a MERGE is left out: it includes copied rows.
_METRICS = {
    "WRITE": ("numOutputRows", "num_added_rows"),
    "MERGE": (
        *("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
        *("num_target_rows_inserted", "num_target_rows_updated", "num_target_rows_deleted"),
    ),
    "UPDATE": ("numUpdatedRows", "num_updated_rows"),
    "DELETE": ("numDeletedRows", "num_deleted_rows"),
}
# The metrics of Spark for the bytes of files that a commit added and removed. An operation has one of each at most.
_ADDED = ("numOutputBytes", "numTargetBytesAdded", "numAddedBytes")
_REMOVED = ("numTargetBytesRemoved", "numRemovedBytes")


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit: its version, time and operation, and how many rows it changed.

    ``bytes_added`` and ``bytes_removed`` are those of files, also of change data. In a folder it has its metrics by
    Delta's names too, its note (``userMetadata``), and its number of change data files.
    """

    version: int
    at: datetime
    operation: str
    rows: int
    bytes_added: int = field(default=0, compare=False)
    bytes_removed: int = field(default=0, compare=False)
    metrics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    note: str | None = field(default=None, compare=False)
    change_files: int = field(default=0, compare=False)


def counts_of(operation: str, metrics: Mapping[str, Any]) -> list[int]:
    """The numbers of rows that an operation wrote, changed or deleted, by its metrics; none of an unknown one."""
    return [int(metrics[name]) for name in _METRICS.get(operation, ()) if name in metrics]


def bytes_of(metrics: Mapping[str, Any]) -> tuple[int, int]:
    """The bytes of the files that an operation of Spark added and removed, by its metrics."""
    added, removed = (sum(int(metrics.get(name) or 0) for name in names) for names in (_ADDED, _REMOVED))
    return added, removed
