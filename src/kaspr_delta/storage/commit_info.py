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


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit: its version, time and operation, and how many rows it changed.

    In a folder also its metrics by Delta's names, its note (``userMetadata``), and its number of change data files.
    """

    version: int
    at: datetime
    operation: str
    rows: int
    metrics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    note: str | None = field(default=None, compare=False)
    change_files: int = field(default=0, compare=False)


def counts_of(operation: str, metrics: Mapping[str, Any]) -> list[int]:
    """The numbers of rows that an operation wrote, changed or deleted, by its metrics; none of an unknown one."""
    return [int(metrics[name]) for name in _METRICS.get(operation, ()) if name in metrics]
