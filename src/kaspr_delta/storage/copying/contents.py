"""The files of a schema by what they are: data, logs of tables, and the rest, such as checkpoints of streams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kaspr_delta.storage.folders import File, Folder
from kaspr_delta.storage.native.log_files import LOG

_COMMIT = re.compile(rf"([^/]+)/{LOG}/(\d{{20}})\.json")
_LAST = f"{LOG}/_last_checkpoint"
# Locks belong to the processes that hold them.
_LOCKS = "_kaspr/locks/"


class CommitFile(NamedTuple):
    """The file of a commit. They sort by the time of the commit, and those of a table by their versions."""

    at: int
    table: str
    version: int
    name: str


@dataclass(frozen=True)
class Contents:
    """The files of a schema, by their names from its folder.

    Left out are locks, and hidden files: Hadoop's checksums, and files that somebody was writing when he was killed.
    """

    files: Mapping[str, File]

    @classmethod
    def of(cls, schema: Folder) -> Contents:
        """The files that are there now."""
        return cls({name: file for name, file in schema.files().items() if _belongs(name)})

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files.values())

    @cached_property
    def commits(self) -> list[CommitFile]:
        """The commits of all tables, in the order in which they are to be written.

        The time of a commit counts in joins of a stream with a table. A clock that was set back changes no version.
        """
        latest: dict[str, int] = {}
        found = []
        for commit in sorted(self._commits, key=lambda one: (one.table, one.version)):
            latest[commit.table] = max(commit.at, latest.get(commit.table, commit.at))
            found.append(commit._replace(at=latest[commit.table]))
        return sorted(found)

    @cached_property
    def newest(self) -> dict[str, int]:
        """The newest version of each table."""
        found: dict[str, int] = {}
        for commit in self._commits:
            found[commit.table] = max(commit.version, found.get(commit.table, 0))
        return found

    @property
    def data(self) -> list[str]:
        """The files of tables beside their logs: commits and checkpoints refer to them."""
        return [name for name in self._of_tables if f"/{LOG}/" not in name]

    @property
    def checkpoints(self) -> list[str]:
        """The files of logs that make a version by themselves, whole if all data is there."""
        commits = {commit.name for commit in self._commits}
        logs = (name for name in self._of_tables if f"/{LOG}/" in name and name not in commits)
        return [name for name in logs if not name.endswith(f"/{_LAST}")]

    @property
    def rest(self) -> list[str]:
        """The files after the commits: the names of last checkpoints, and all that is no table."""
        earlier = {*self.data, *self.checkpoints, *(commit.name for commit in self._commits)}
        return [name for name in self.files if name not in earlier]

    @property
    def _of_tables(self) -> list[str]:
        tables = set(self.newest)
        return [name for name in self.files if table_of(name) in tables]

    @cached_property
    def _commits(self) -> list[CommitFile]:
        found = ((_COMMIT.fullmatch(name), file.at) for name, file in self.files.items())
        return [CommitFile(at, match[1], int(match[2]), match[0]) for match, at in found if match is not None]


def table_of(name: str) -> str:
    """The table that a file belongs to, if it belongs to one."""
    return name.partition("/")[0]


def _belongs(name: str) -> bool:
    return not name.startswith(_LOCKS) and not any(part.startswith(".") for part in name.split("/"))
