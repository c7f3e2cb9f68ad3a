"""How many rows commits changed, by what a table's log on this machine's disk says of them. No row is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# What Spark and delta-rs count, by operation. A MERGE also tells its output, rows included that it only copied.
_METRICS = {
    "WRITE": ("numOutputRows", "num_added_rows"),
    "MERGE": (
        *("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
        *("num_target_rows_inserted", "num_target_rows_updated", "num_target_rows_deleted"),
    ),
    "UPDATE": ("numUpdatedRows", "num_updated_rows"),
    "DELETE": ("numDeletedRows", "num_deleted_rows"),
}


def rows_changed_after(location: Path, version: int) -> int | None:
    """The rows that the commits after a version wrote, changed or deleted; None where there is no table."""
    commits = sorted((location / "_delta_log").glob("?" * 20 + ".json"), reverse=True)
    if not commits:
        return None
    rows = 0
    for commit in commits:
        if int(commit.stem) <= version:
            break
        rows += rows_of_commit(commit.read_text().splitlines())
    return rows


def rows_of_commit(lines: Iterable[str]) -> int:
    """The rows that a commit, given as the lines of its file, wrote, changed or deleted."""
    actions = [json.loads(line) for line in lines]
    about: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    metrics = about.get("operationMetrics") or {}
    counted = [metrics[name] for name in _METRICS.get(about.get("operation", ""), ()) if name in metrics]
    if counted:
        return sum(map(int, counted))
    added = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]
    return sum(int(json.loads(file.get("stats") or "{}").get("numRecords", 0)) for file in added)
