"""What Spark's checkpoint of a stream over Delta tables tells: how far the stream has read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

# How Spark writes that a source has no offset yet.
_NO_OFFSET = "-"


class Position(NamedTuple):
    """Where a stream stands in a Delta table: versions before this one were read, and of this one some files or none.

    The id tells the table from one that was made later under its name.
    """

    table_id: str
    version: int
    some_read: bool

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Position:
        """By the offset of the stream. Its index is that of the last file that was read, negative before the first."""
        return cls(offset["reservoirId"], int(offset["reservoirVersion"]), int(offset["index"]) >= 0)

    @property
    def unread(self) -> int:
        """The first version of which nothing was read."""
        return self.version + self.some_read


def positions_in(checkpoint: Path) -> tuple[Position | None, ...]:
    """Where the last batch that has ended left the stream, source by source in their order.

    None for a source of which nothing was read. Empty where no batch has ended.
    """
    batches = [int(commit.name) for commit in (checkpoint / "commits").glob("[0-9]*") if commit.name.isdigit()]
    if not batches:
        return ()
    try:
        lines = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[2:]
    except FileNotFoundError:  # Spark removes old ones, and may have written newer ones meanwhile
        return ()
    offsets = [None if line == _NO_OFFSET else json.loads(line) for line in lines]
    return tuple(None if offset is None else Position.of(offset) for offset in offsets)
