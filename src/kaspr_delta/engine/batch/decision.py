"""The values that a resource and its batch hand to each other: a decision, a fold's numbers, sources, logged rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.topic_commit import DirectAppend
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.sequence import end_of, version_of

LoggedBatch: TypeAlias = tuple[BatchId, Rows]
"""A batch of the log, with its rows as the log has them."""


class SourceTable(NamedTuple):
    """The source of a stream; ``table`` is None for an endpoint, in which only the stream can find news.

    A position of the source is a version of the table or, ``by_offset``, an offset of a record (``rows.sequence``).
    """

    table: str | None
    by_offset: bool = False

    def upto(self, version: int) -> int:
        """The position at which the table is read up to and with a version."""
        return end_of(version) if self.by_offset else version

    def version(self, position: int) -> int:
        """The last version that a position has read wholly."""
        return version_of(position + 1) - 1 if self.by_offset else position


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a batch: the rows to append to the log, and the number of its input rows (or touched keys).

    ``state`` is plain data, handed to the next batch unchanged. ``counts`` are for the metrics. ``direct`` has the same
    effects as records of one topic, if the append to that topic may be the commit.
    """

    effects: Rows
    rows_in: int
    state: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    direct: DirectAppend | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """The numbers of a fold: records and table writes, dead letters, and left rows that had been stale.

    ``counts`` are for the metrics.
    """

    rows_out: int
    dead_letters: int
    stale: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
