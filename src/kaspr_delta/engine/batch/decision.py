"""The values that a resource and its batch hand to each other: a decision, a fold's numbers, logged rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.topic_commit import DirectAppend
from kaspr_delta.engine.rows.rows import Rows

LoggedBatch: TypeAlias = tuple[BatchId, Rows]
"""A batch of the log, with its rows as the log has them."""


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
