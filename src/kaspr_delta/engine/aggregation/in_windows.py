"""The windows of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from kaspr_delta.plan.definition.window import WindowPlan
from kaspr_delta.serde.instants import microseconds, moment_of
from kaspr_delta.storage.arrow_types import arrow_schema

_TIME = arrow_schema("time TIMESTAMP").field("time").type


@dataclass(frozen=True, slots=True)
class InWindows:
    """Repeats each record for each window of its time that is open, with the start of that in ``window_start``.

    ``so_far``, which is left out, is the greatest time of the record's ``stream`` in this batch, ``before`` that of
    earlier batches by stream, in milliseconds since 1970.
    """

    window: WindowPlan
    before: Mapping[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("timestamp", "so_far", "stream"))
            places = list[int]()
            starts = list[datetime]()
            for place, (at, so_far, stream) in enumerate(zip(*columns, strict=True)):
                time, now = microseconds(at) // 1_000, microseconds(so_far) // 1_000
                for start in self.window.starts(time):
                    if self.window.is_open(start, max(now, self.before.get(stream, now))) and (start >= 0 or time < 0):
                        places.append(place)
                        starts.append(moment_of(start * 1_000))
            kept = [name for name in batch.schema.names if name not in {"so_far", "window_start"}]
            rows = batch.select(kept).take(pa.array(places, pa.int64()))
            yield rows.append_column("window_start", pa.array(starts, _TIME))
