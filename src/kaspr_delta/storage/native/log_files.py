"""The log files of a table in a folder: commits, their rows and their files. No row is read."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from kaspr_delta.errors import DamagedTableError
from kaspr_delta.storage.commit_info import CommitInfo, counts_of
from kaspr_delta.storage.folders import LOG_FOLDER, Folder, Stamp
from kaspr_delta.storage.gone import table_gone
from kaspr_delta.storage.tables import Commit

LOG = LOG_FOLDER
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint")


@dataclass(frozen=True, slots=True)
class Head:
    """The newest commit of a table: its version, and the identity of its file. A table created anew has another one."""

    version: int
    file: Stamp


@dataclass(frozen=True, slots=True)
class Listed:
    """The newest commit of a table in a bucket when its log was listed last.

    ``life`` is another object once the table was deleted or created anew.
    """

    head: Head
    life: object


_listed: dict[str, Listed] = {}
_listing = threading.Lock()


def commit_file(version: int) -> str:
    """The file of a commit, in the folder of its table."""
    return f"{LOG}/{version:020}.json"


def versions_in(location: Folder) -> list[int]:
    """The versions whose commits are in the log, in no order; none where there is no table."""
    return [int(match[1]) for match in map(_COMMIT.fullmatch, location.names(LOG)) if match is not None]


def newest_version(location: Folder) -> int | None:
    """The newest version of a table; None where there is no table.

    No version is left out after the checkpoint that the log names as its last one: from there the next files are asked
    for, one after another. The folder is listed without such a name, and in a bucket, where each question is a request.
    """
    if not location.is_here:
        found = listed(location)
        return None if found is None else found.head.version
    newest = last_checkpoint(location)
    if newest is None or not location.has_file(commit_file(newest)):
        return max(versions_in(location), default=None)
    while location.has_file(commit_file(newest + 1)):
        newest += 1
    return newest


def newest_in(location: Folder) -> Commit:
    """The newest version of a table and its time. Raises SetupError for a table that is gone."""
    newest = newest_head(location)
    if newest is None:
        raise table_gone(str(location))
    return Commit(newest.version, datetime.fromtimestamp(newest.file.time, tz=timezone.utc))


def newest_head(location: Folder) -> Head | None:
    """The newest commit of a table; None where there is no table. Raises DamagedTableError for one without a byte."""
    if not location.is_here:
        found = listed(location)
        newest = None if found is None else found.head
    else:
        version = newest_version(location)
        newest = None if version is None else head_at(location, version)
    if newest is not None and newest.file.is_empty:
        raise _empty_commit(location, newest.version)
    return newest


def _empty_commit(location: Folder, version: int) -> DamagedTableError:
    """The error for a commit whose file has no bytes. Delta takes it for one without rows, which they would be then."""
    return DamagedTableError(
        f"the newest commit of the table {location.name} is an empty file, as after a loss of power: its rows would be"
        f" lost without a word. Remove {location}/{commit_file(version)}, and run or write again"
    )


def head_at(location: Folder, version: int) -> Head | None:
    """The commit of a version; None where it is not in the log."""
    if not location.is_here:  # so that all heads there have the stamps of a listing
        return _heads(location, version - 1).get(version)
    try:
        return Head(version, location.stamp(commit_file(version)))
    except FileNotFoundError:
        return None


def last_listed(location: Folder) -> Listed | None:
    """The answer that ``listed`` gave last."""
    return _listed.get(str(location))


def listed(location: Folder) -> Listed | None:
    """The newest commit of a table in a bucket, by one LIST; None where there is no table.

    The LIST begins at the commit that was the newest one last time. If that file is not there any more, or is another
    one, all of the log is listed, and the table has another ``life``.
    """
    before = last_listed(location)
    heads = {} if before is None else _heads(location, before.head.version - 1)
    life = object() if before is None or heads.get(before.head.version) != before.head else before.life
    if before is None or life is not before.life:
        heads = _heads(location, -1)
    found = Listed(heads[max(heads)], life) if heads else None
    with _listing:
        now = _listed.get(str(location))
        if found is None:
            _listed.pop(str(location), None)
        # Another thread may have seen a later commit.
        elif now is None or now.life is not life or now.head.version <= found.head.version:
            _listed[str(location)] = found
    return found


def _heads(location: Folder, after: int) -> dict[int, Head]:
    """The commits after a version, by version."""
    names = location.stamps(LOG, commit_file(after).removeprefix(f"{LOG}/") if after >= 0 else "")
    found = ((_COMMIT.fullmatch(name), stamp) for name, stamp in names.items())
    return {int(match[1]): Head(int(match[1]), stamp) for match, stamp in found if match is not None}


def commit_of(location: Folder, version: int) -> CommitInfo | None:
    """The commit of a version; None where it is gone from the log."""
    try:
        actions = actions_of(location, version)
        about = _about(actions)
        at = about["timestamp"] / 1_000 if "timestamp" in about else location.stamp(commit_file(version)).time
    except FileNotFoundError:
        return None
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


def oldest_version(location: Folder) -> int:
    """The oldest version that can be read: that of the first commit, or else of the oldest checkpoint."""
    if location.has_file(commit_file(0)):
        return 0
    found = map(_CHECKPOINT.match, location.names(LOG))
    checkpoints = (int(match[1]) for match in found if match is not None)
    return min(checkpoints, default=min(versions_in(location), default=0))


def rows_changed_after(location: Folder, version: int) -> int | None:
    """The rows that the commits after a version wrote, changed or deleted; None where there is no table.

    As far as these commits are in the log.
    """
    newest = newest_version(location)
    if newest is None:
        return None
    found = (commit_of(location, commit) for commit in range(version + 1, newest + 1))
    return sum(commit.rows for commit in found if commit is not None)


def last_checkpoint(location: Folder) -> int | None:
    """The version of the checkpoint that the log names as its last one; None if it names none."""
    try:
        return int(json.loads(location.read(f"{LOG}/_last_checkpoint"))["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def actions_of(location: Folder, version: int) -> list[dict[str, Any]]:
    """The actions of a commit. Raises FileNotFoundError."""
    # Lines of bytes: texts in the table may have characters that end a line of text.
    return [json.loads(line) for line in location.read(commit_file(version)).splitlines()]


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
