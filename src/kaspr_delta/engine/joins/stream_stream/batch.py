"""One batch of a stream-stream join, on the driver: the records of each partition go through its join."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.engine.joins.stream_stream.window_join import (
    Buffered,
    JoinWindow,
    Side,
    StreamRecord,
    Times,
    WindowJoin,
)
from kaspr_delta.plan.definition.joins import JoinType
from kaspr_delta.storage.arrow_types import arrow_schema

SIDES: tuple[Side, Side] = ("left", "right")

# Rows of the log, except rows with a problem.
LOGGED = arrow_schema(
    "key STRING, kind STRING, left STRING, right STRING, timestamp TIMESTAMP, seq BIGINT, partition INT, id STRING,"
    " side STRING, until TIMESTAMP, pending BOOLEAN, arrived BIGINT, live BOOLEAN, failed BOOLEAN"
)
# Times are milliseconds here, and microseconds in Delta.
_LOGGED = pa.schema([of.with_type(pa.timestamp("ms", "UTC")) if pt.is_timestamp(of.type) else of for of in LOGGED])


@dataclass
class StreamStreamBatch:
    """The joins of all partitions during a batch.

    ``times``: the times of the joins by partition. ``cleaned``: the timestamp below which expired rows have been
    deleted, by partition and side.
    """

    type: JoinType
    window: JoinWindow
    times: dict[int, Times]
    cleaned: dict[int, dict[Side, int]]
    _rows: list[dict[str, Any]] = field(default_factory=list, init=False)

    @classmethod
    def resumed(cls, join_type: JoinType, window: JoinWindow, state: Mapping[str, Any]) -> StreamStreamBatch:
        """The joins as the batch before left them: ``times`` and ``cleaned`` are plain data in its ``state``."""
        times = {int(partition): Times(*of) for partition, of in state.get("times", {}).items()}
        cleaned = {int(partition): dict(sides) for partition, sides in state.get("cleaned", {}).items()}
        return cls(join_type, window, times, cleaned)

    def newest(self, records: Sequence[StreamRecord]) -> dict[int, int]:
        """The stream time of each partition after these records."""
        reached: dict[int, int] = {}
        for record in records:
            known = reached.get(record.partition, self.times.get(record.partition, Times()).stream)
            reached[record.partition] = record.timestamp if known is None else max(known, record.timestamp)
        return reached

    def run(
        self,
        records: Sequence[StreamRecord],
        buffer: Mapping[int, Sequence[Buffered]],
        unread: Mapping[int, Mapping[Side, Sequence[int]]],
    ) -> pa.Table:
        """Take the records of each partition in their order, and return rows of the log."""
        by_partition: defaultdict[int, list[StreamRecord]] = defaultdict(list)
        for record in records:
            by_partition[record.partition].append(record)
        for partition in sorted(by_partition):
            times, rows = self.times.get(partition, Times()), buffer.get(partition, ())
            join = WindowJoin(self.type, self.window, times, rows, unread.get(partition))
            for record in merged(by_partition[partition]):
                self._rows.extend({"kind": "value", **joined._asdict()} for joined in join.process(record))
            self._keep(partition, join)
        columns = [{"seq": seq, "failed": False, **row} for seq, row in enumerate(self._rows)]
        return pa.Table.from_pylist(columns, _LOGGED).cast(LOGGED)

    def _keep(self, partition: int, join: WindowJoin) -> None:
        """Log the changes of the buffer. Rows that match nothing any more are deleted now and then, many at once."""
        added, changed, removed = join.changes()
        self._rows.extend(_state(partition, row) for row in (*added, *changed))
        self._rows.extend({"kind": "state", "partition": partition, "id": left, "live": False} for left in removed)
        self.times[partition] = join.times
        cleaned = self.cleaned.setdefault(partition, {})
        span = max(self.window.before + self.window.after + self.window.grace, 1)
        for side in SIDES:
            bound = join.expired(side)
            if bound is not None and bound >= cleaned.get(side, bound - span) + span:
                cleaned[side] = bound
                self._rows.append({"kind": "expire", "partition": partition, "side": side, "until": bound})


def merged(records: Iterable[StreamRecord]) -> list[StreamRecord]:
    """The records of one partition: each side in order of arrival, both merged by each side's greatest time so far."""
    timed: list[tuple[int, Side, StreamRecord]] = []
    heads: dict[Side, int] = {}
    for record in sorted(records, key=attrgetter("offset")):
        side, timestamp = record.side, record.timestamp
        heads[side] = max(timestamp, heads.get(side, timestamp))
        timed.append((heads[side], side, record))
    return [record for *_, record in sorted(timed, key=itemgetter(0, 1))]


def _state(partition: int, row: Buffered) -> dict[str, Any]:
    return {
        "kind": "state",
        "partition": partition,
        "id": row.id,
        "side": row.side,
        "key": row.key,
        "left": row.value,
        "timestamp": row.timestamp,
        "pending": row.pending,
        "arrived": row.arrived,
        "live": True,
    }
