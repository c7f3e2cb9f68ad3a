"""Spark's checkpoint of a stream over Delta tables: how far the stream has read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kaspr_delta.storage.folders import Folder

# Spark's mark for a source without an offset.
_NO_OFFSET = "-"


class Position(NamedTuple):
    """The position of a stream in a Delta table: earlier versions were read, and of this one some files or none.

    ``files`` is the number of files of this version that were read. If its commit has change data files, only these
    count. The id differs from that of a table that was made later under the same name.
    """

    table_id: str
    version: int
    files: int

    @classmethod
    def of(cls, offset: Any) -> Position | None:
        """From the offset of the stream, whose index is that of the last file read; negative before the first.

        None for the offset of another source, such as Kafka or files.
        """
        if not isinstance(offset, Mapping) or "reservoirId" not in offset:
            return None
        return cls(offset["reservoirId"], int(offset["reservoirVersion"]), max(0, int(offset["index"]) + 1))

    @property
    def unread(self) -> int:
        """The first version of which no file was read."""
        return self.version + bool(self.files)

    def last_read(self, change_files: int | None) -> int:
        """The last version that was surely read wholly, if ``version`` has this number of change data files."""
        return self.version if self.has_read(self.version, change_files) else self.version - 1

    def has_read(self, version: int, change_files: int | None) -> bool:
        """Whether the stream has read everything up to a version, which has this number of change data files.

        Once commit 7 is read, Spark's offset is at version 8, or, if the commit has two change data files, at version 7
        with two files.
        """
        if self.version > version:
            return True
        return self.version == version and bool(self.files) and self.files == change_files


def newest_stream(checkpoints: Folder, having: str) -> Folder | None:
    """The newest stream of a resource, by name, with a batch in ``offsets`` (planned) or ``commits`` (ended)."""
    streams = (checkpoints / name for name in sorted(checkpoints.names(), reverse=True) if not name.startswith("."))
    return next((stream for stream in streams if _batches_in(stream, having)), None)


def positions_in(checkpoint: Folder) -> tuple[Position | None, ...]:
    """The positions of the stream after the last batch that has ended, in the order of its sources.

    None for a source of which nothing was read, or that is no Delta table. Empty where no batch has ended.
    """
    batches = _batches_in(checkpoint, "commits")
    return _offsets(checkpoint, max(batches)) if batches else ()


def _batches_in(checkpoint: Folder, name: str) -> list[int]:
    return [int(file) for file in checkpoint.names(name) if file.isdigit()]


def _offsets(checkpoint: Folder, batch: int) -> tuple[Position | None, ...]:
    try:
        lines = checkpoint.read(f"offsets/{batch}").decode().splitlines()[2:]
    except FileNotFoundError:  # Spark removes old ones, and may have written newer ones meanwhile
        return ()
    return tuple(None if line == _NO_OFFSET else Position.of(json.loads(line)) for line in lines)


def first_needed(checkpoints: Folder) -> dict[str, int]:
    """By the id of a table, the first version that a stream needs: of all resources with a folder here.

    A stream that is started again asks once more for its last batch, from where the batch before it ended.
    """
    needed: dict[str, int] = {}
    for resource in (checkpoints / name for name in checkpoints.names() if checkpoints.has_folder(name)):
        newest = newest_stream(resource, "offsets")  # a planned batch needs its commits already
        if newest is None:
            continue
        last = max(_batches_in(newest, "offsets"))
        before = {one.table_id: one.version for one in _offsets(newest, last - 1) if one is not None}
        for position in _offsets(newest, last):
            if position is not None:
                first = before.get(position.table_id, 0)
                needed[position.table_id] = min(needed.get(position.table_id, first), first)
    return needed


def remove_unfinished(checkpoint: Folder) -> None:
    """Remove half-written files from the checkpoint of a stopped stream: of a Spark that died, or of a full disk.

    Spark renames a file when it is whole, and reads no other. But it does not start a stream beside a half-written one.
    """
    for folder in ("offsets", "commits"):
        for name in checkpoint.names(folder):
            if name.startswith(".") and ".tmp" in name:
                checkpoint.remove(f"{folder}/{name}")
