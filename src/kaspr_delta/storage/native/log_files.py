"""The log files of a table in a folder of this machine: commits, their rows and their files. No row is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from kaspr_delta.storage.commit_info import CommitInfo, counts_of
from kaspr_delta.storage.gone import table_gone
from kaspr_delta.storage.tables import Commit

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint")


def commit_file(location: Path, version: int) -> Path:
    """The file of a commit."""
    return location / "_delta_log" / f"{version:020}.json"


def versions_in(location: Path) -> list[int]:
    """The versions whose commits are in the log, in no order; none where there is no table."""
    return [int(file.stem) for file in (location / "_delta_log").glob("?" * 20 + ".json")]


def newest_version(location: Path) -> int | None:
    """The newest version of a table; None where there is no table.

    No version is left out after the checkpoint that the log names as its last one: from there the next files are asked
    for, one after another. Only without such a name is the folder listed.
    """
    newest = last_checkpoint(location)
    if newest is None or not commit_file(location, newest).exists():
        return max(versions_in(location), default=None)
    while commit_file(location, newest + 1).exists():
        newest += 1
    return newest


def newest_in(location: Path) -> Commit:
    """The newest version of a table and its time. Raises SetupError for a table that is gone."""
    newest = newest_version(location)
    if newest is None:
        raise table_gone(location)
    written = commit_file(location, newest).stat().st_mtime
    return Commit(newest, datetime.fromtimestamp(written, tz=timezone.utc))


def commit_of(location: Path, version: int) -> CommitInfo | None:
    """The commit of a version; None where it is gone from the log."""
    try:
        actions = actions_of(location, version)
        written = commit_file(location, version).stat().st_mtime
    except FileNotFoundError:
        return None
    about = _about(actions)
    at = about["timestamp"] / 1_000 if "timestamp" in about else written
    return CommitInfo(
        version,
        datetime.fromtimestamp(at, timezone.utc),
        operation=str(about.get("operation", "")),
        rows=rows_of_commit(actions),
        bytes_added=_bytes_of(actions, "add", "cdc"),
        bytes_removed=_bytes_of(actions, "remove"),
        metrics=about.get("operationMetrics") or {},
        note=about.get("userMetadata"),
        change_files=sum("cdc" in action for action in actions),
    )


def oldest_version(location: Path) -> int:
    """The oldest version that can be read: that of the first commit, or else of the oldest checkpoint."""
    if commit_file(location, 0).exists():
        return 0
    commits = versions_in(location)
    found = (_CHECKPOINT.match(file.name) for file in (location / "_delta_log").glob("*.checkpoint*"))
    return min((int(name.group(1)) for name in found if name is not None), default=min(commits, default=0))


def rows_changed_after(location: Path, version: int) -> int | None:
    """The rows that the commits after a version wrote, changed or deleted; None where there is no table.

    As far as these commits are in the log.
    """
    newest = newest_version(location)
    if newest is None:
        return None
    found = (commit_of(location, commit) for commit in range(version + 1, newest + 1))
    return sum(commit.rows for commit in found if commit is not None)


def last_checkpoint(location: Path) -> int | None:
    """The version of the checkpoint that the log names as its last one; None if it names none."""
    try:
        return int(json.loads((location / "_delta_log" / "_last_checkpoint").read_bytes())["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def actions_of(location: Path, version: int) -> list[dict[str, Any]]:
    """The actions of a commit. Raises FileNotFoundError."""
    # Lines of bytes: texts in the table may have characters that end a line of text.
    return [json.loads(line) for line in commit_file(location, version).read_bytes().splitlines()]


def rows_of_commit(actions: Sequence[Mapping[str, Any]]) -> int:
    """The rows that a commit wrote, changed or deleted."""
    about = _about(actions)
    counted = counts_of(about.get("operation", ""), about.get("operationMetrics") or {})
    if counted:
        return sum(counted)
    added = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]
    return sum(map(rows_of, added))


def rows_of(file: Mapping[str, Any]) -> int:
    """The rows of an added file, by its statistics; 0 if it has none."""
    return int(json.loads(file.get("stats") or "{}").get("numRecords", 0))


def _bytes_of(actions: Iterable[Mapping[str, Any]], *kinds: str) -> int:
    return sum(int(action[kind].get("size") or 0) for action in actions for kind in kinds if kind in action)


def _about(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
