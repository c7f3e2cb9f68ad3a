"""Removes old commits from the log of a table: Delta lists all files of a log, several times in each batch.

A log that is cleaned begins with a checkpoint. Every prefix of the deletions leaves a log that reads the same from
there on, so that a killed cleaning needs no repair; the next one removes the rest. Versions give the order of commits;
the time of a file only tells how long it was kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from pyarrow import ArrowException

from kaspr_delta.storage.folders import Folder, LocalFolder
from kaspr_delta.storage.layout import CHECKPOINT_INTERVAL
from kaspr_delta.storage.native.log_files import LOG, commit_file, last_checkpoint, newest_version
from kaspr_delta.storage.native.old_commits import IrregularError, end_of_old, keep_commits

# The files of one version: its commit, checksum and checkpoint, and Hadoop's checksums of these, which are hidden.
_OF_VERSION = re.compile(r"\.?(\d{20})\.(json|crc|checkpoint\..*)")


def has_long_log(location: Folder) -> bool:
    """Whether the log of a table has more commits than two intervals of checkpoints: a few names of files are read."""
    newest, many = newest_version(location), 2 * CHECKPOINT_INTERVAL
    return newest is not None and newest >= many and location.has_file(commit_file(newest - many))


def clean_log(location: Folder, kept: float) -> None:
    """Remove the commits before a checkpoint that are older than ``kept`` seconds, with their checkpoints.

    The caller holds the lock of the table's commits: a table that is made anew begins with the same names.
    """
    files = _files_of(location)
    _remove(location, files, _first_to_keep(location, files, time.time() - kept))


def clean_followed_log(location: LocalFolder, kept: float, needed: int | None) -> None:
    """The same for a topic or channel, whose old commits are kept elsewhere (``old_commits``).

    ``needed`` is the first version that a stream needs; None: there is no stream.
    """
    files, moment = _files_of(location), time.time() - kept
    first = _first_to_keep(location, files, moment, needed)
    try:
        keep_commits(location, first)
    except IrregularError as irregular:
        keep_commits(location, _first_to_keep(location, files, moment, irregular.version))
    _remove(location, files, end_of_old(location))


def _remove(location: Folder, files: Mapping[str, int], first: int) -> None:
    """Remove the files of versions before the first one to keep.

    Checkpoints go first, then the oldest commit: what is left can be read from its first version on, or from ``first``.
    """
    old = [name for name, version in files.items() if version < first]
    for name in sorted(old, key=lambda name: ("checkpoint" not in name, files[name], name)):
        location.remove(f"{LOG}/{name}")


def _first_to_keep(location: Folder, files: Mapping[str, int], moment: float, needed: int | None = None) -> int:
    """The newest version with a checkpoint that can be read, before which all commits were made before a moment.

    None of these is ``needed``, which is the first of several such versions.
    """
    commits = sorted(version for name, version in files.items() if f"{LOG}/{name}" == commit_file(version))
    young = (version for version in commits if location.stamp(commit_file(version)).time >= moment)
    # A reader begins at the checkpoint that the log names as its last one.
    named = last_checkpoint(location) or 0
    most = min(named, next(young, commits[-1]), commits[-1] if needed is None else needed)
    return next((version for version in reversed(commits) if version <= most and _begins(location, version)), 0)


def _files_of(location: Folder) -> dict[str, int]:
    """The files of versions in a log, each with its version."""
    names = map(_OF_VERSION.fullmatch, location.names(LOG))
    return {match[0]: int(match[1]) for match in names if match is not None}


def _begins(location: Folder, version: int) -> bool:
    """Whether a log can begin with a version: it has a checkpoint in one file, which can be read."""
    checkpoint = f"{LOG}/{version:020}.checkpoint.parquet"
    if not location.has_file(checkpoint):
        return False
    from pyarrow.parquet import ParquetFile

    try:
        with location.open(checkpoint) as file, ParquetFile(file) as opened:
            return bool(opened.metadata.num_rows)
    except (OSError, ArrowException):
        return False
