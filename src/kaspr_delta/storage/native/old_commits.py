"""The commits that were removed from the log of a topic or channel: who starts late reads their rows all the same.

Rows are only appended to such a table. So all that its change feed needs of a commit is its version, its time and the
names of the files that it added. They are kept in Parquet files beside the log, each for a range of versions. They are
written on this machine only: in a bucket two machines could keep the same commits at once. They are read there all the
same, for a warehouse may have been copied to it.

Most commands find none: they do without the parts of Arrow that read them, and start quicker.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kaspr_delta.serde.instants import moment_of
from kaspr_delta.storage.folders import Folder, LocalFolder
from kaspr_delta.storage.native.log_files import actions_of, commit_file, last_listed, listed, rows_of

_FOLDER = "_commits"  # Delta takes no file for one of the table if the name of its folder begins like that
_PART = re.compile(r"(\d{20})-(\d{20})\.parquet")
_PLAIN = re.compile(r"[\w.=+-]+")
FILES = pa.schema(
    [("version", pa.int64()), ("at", pa.timestamp("ms", "UTC")), ("file", pa.string()), ("rows", pa.int64())]
)
"""The columns of added files: version and time of the commit, name of the file, number of its rows."""


# By table in a bucket, the files with removed commits, and the life of the table in which they were listed.
_in_buckets: dict[str, tuple[object, list[str]]] = {}


class _Part(NamedTuple):
    """A file with the commits of a range of versions, both included."""

    first: int
    last: int
    name: str

    @property
    def versions(self) -> int:
        return self.last - self.first + 1


class IrregularError(Exception):
    """A commit whose part of the change feed is more than the rows of the files that it added, or is not known."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def end_of_old(location: Folder) -> int:
    """The first version of which only the log knows the commit. Older ones are kept here, whether the log has them."""
    return max((part.last for part in _parts(location)), default=-1) + 1


def files_added(location: Folder, first: int, last: int) -> pa.Table:
    """The files that commits between two versions added, as FILES: of old commits, and of those in the log.

    Raises IrregularError.
    """
    import pyarrow.compute as pc

    try:
        old, end = _kept(location, first), end_of_old(location)
    except FileNotFoundError:  # a cleaning has just put it into a larger part
        old, end = _kept(location, first), end_of_old(location)
    old = old.filter((pc.field("version") >= first) & (pc.field("version") <= last))
    return pa.concat_tables([old, _in_log(location, range(max(first, end), last + 1))])


def rows_removed(location: Folder, first: int) -> int:
    """The rows that old commits from a version on appended, as far as files have statistics."""
    import pyarrow.compute as pc

    old = _kept(location, first) if first < end_of_old(location) else FILES.empty_table()
    return pc.sum(old.filter(pc.field("version") >= first)["rows"]).as_py() or 0


def keep_commits(location: LocalFolder, upto: int) -> None:
    """Keep the commits before a version, which are all in the log as far as they are not kept yet.

    They are on the disk when this returns, so that the log may lose them. Raises IrregularError.
    """
    first = end_of_old(location)
    if first >= upto:
        return
    from pyarrow.parquet import write_table

    rows, parts = _in_log(location, range(first, upto)), _parts(location)
    # A part takes in earlier ones that are not larger: there are few parts, and a commit is rarely written again.
    while parts and parts[-1].versions <= upto - first:
        part = parts.pop()
        rows, first = pa.concat_tables([_files_in(location, part), rows]), part.first
    folder = location.path / _FOLDER
    folder.mkdir(exist_ok=True)
    unfinished, kept = folder / ".unfinished", folder / f"{first:020}-{upto - 1:020}.parquet"
    with unfinished.open("wb") as file:
        write_table(rows, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(kept)
    _sync(folder)
    for part in set(_all_parts(location)) - set(_parts(location)):
        location.remove(f"{_FOLDER}/{part.name}")


def _kept(location: Folder, first: int) -> pa.Table:
    """The files of kept commits, of those from a version on and perhaps of earlier ones."""
    parts = [_files_in(location, part) for part in _parts(location) if part.last >= first]
    return pa.concat_tables([FILES.empty_table(), *parts])


def _files_in(location: Folder, part: _Part) -> pa.Table:
    from pyarrow.parquet import read_table

    with location.open(f"{_FOLDER}/{part.name}") as file:
        return read_table(file, schema=FILES)


def _in_log(location: Folder, versions: Iterable[int]) -> pa.Table:
    rows = (row for version in versions for row in _added_by(location, version))
    return pa.Table.from_pylist(list(rows), FILES)


def _added_by(location: Folder, version: int) -> Iterator[dict[str, Any]]:
    """The files that a commit added: the rows that its change feed inserts are all rows of these."""
    try:
        actions = actions_of(location, version)
        at = int(location.stamp(commit_file(version)).time * 1_000)
    except (OSError, ValueError) as error:
        raise IrregularError(version) from error
    about: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    added = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]
    if any("cdc" in action for action in actions):
        # The feed has the rows of these files: none of them was inserted by a DELETE or an UPDATE.
        if about.get("operation") not in {"DELETE", "UPDATE"}:
            raise IrregularError(version)
        return
    if added and about.get("operation") in {"DELETE", "UPDATE", "MERGE"}:
        raise IrregularError(version)
    for file in added:
        if file.get("deletionVector") or file.get("partitionValues") or not _PLAIN.fullmatch(file["path"]):
            raise IrregularError(version)
        yield {
            "version": version,
            "at": moment_of(at * 1_000),
            "file": file["path"],
            "rows": rows_of(file),
        }


def _all_parts(location: Folder) -> list[_Part]:
    names = location.names(_FOLDER) if location.is_here else _names_in_bucket(location)
    found = (match for match in map(_PART.fullmatch, names) if match is not None)
    return sorted(_Part(int(match[1]), int(match[2]), match[0]) for match in found)


def _names_in_bucket(location: Folder) -> list[str]:
    """The files with removed commits of a table in a bucket: nobody writes them there, so they are listed once."""
    looked = last_listed(location) or listed(location)
    if looked is None:
        return []
    known = _in_buckets.get(str(location))
    if known is None or known[0] is not looked.life:
        known = _in_buckets[str(location)] = looked.life, location.names(_FOLDER)
    return known[1]


def _parts(location: Folder) -> list[_Part]:
    """The parts in order, without those that a larger one has taken in: a kill may have left them."""
    parts = _all_parts(location)
    return [
        part
        for part in parts
        if not any(other != part and other.first <= part.first and part.last <= other.last for other in parts)
    ]


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
