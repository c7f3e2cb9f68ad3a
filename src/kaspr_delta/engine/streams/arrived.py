"""Records of topics and channels on the driver, read without Spark: as ``streams.source`` reads them in Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.rows.sequence import offsets, version_of
from kaspr_delta.engine.streams.offset_range import in_order
from kaspr_delta.engine.streams.output import partition_in
from kaspr_delta.engine.streams.source import INPUT, Source
from kaspr_delta.plan.definition.resources import ChannelInput
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import RECORDS, RETRY_FOR, kind_for
from kaspr_delta.storage.limits import Size

_INPUT = arrow_schema(", ".join(f"{name} {kind}" for name, kind in INPUT.items()))


def arrived_records(source: Source, after: Mapping[str, int], upto: Mapping[str, int], most: Size) -> pa.Table | None:
    """The records after positions ``after``, up to and with ``upto``, by source: rows of INPUT, in order.

    None if they are more than ``most``, and for what only Spark reads: changelogs, and channels of typed tables.
    """
    parts = [_INPUT.empty_table()]
    for name, position in sorted(after.items()):
        table = source.table(name)
        if position >= upto[name]:
            continue
        if source.application.changelog(name) is not None:
            return None
        feed = source.delta.changes_here(table, version_of(position + 1), version_of(upto[name]), most)
        if feed is None:
            return None
        inserted = feed.filter(pc.equal(feed["_change_type"], "insert"))  # a deletion by retention is no record
        at = offsets(inserted)
        inserted = inserted.filter(pc.and_(pc.greater(at, position), pc.less_equal(at, upto[name])))
        if isinstance(source.read, ChannelInput):
            records = _of_channel(source, source.read, inserted)
        else:
            records = _of_topic(inserted, name, source.reader)
        if records is None:
            return None
        parts.append(records)
    found = in_order(pa.concat_tables(parts))
    return found if most.fits(found) else None


def _of_topic(rows: pa.Table, topic: str, reader: str) -> pa.Table:
    """A record that a retry sent to one reader is returned only for that reader, without its mark."""
    headers = rows["headers"]
    if headers.null_count < len(headers):
        given = headers.to_pylist()
        mine = [not _marks(one) or {"key": RETRY_FOR, "value": reader.encode()} in one for one in given]
        given = [one and [header for header in one if header["key"] != RETRY_FOR] for one in given]
        rows = rows.set_column(rows.schema.get_field_index("headers"), "headers", pa.array(given, headers.type))
        rows = rows.filter(pa.array(mine, pa.bool_()))
    return _input(rows, topic, {name: rows[name] for name in ("key", "value", "headers", "partition")})


def _marks(headers: Sequence[Mapping[str, object]] | None) -> bool:
    return any(header["key"] == RETRY_FOR for header in headers or ())


def _of_channel(source: Source, channel: ChannelInput, rows: pa.Table) -> pa.Table | None:
    """The value is JSON ``{"left": text, "right": text}``. None if the sides are no texts."""
    if not all(pa.types.is_string(rows.schema.field(side).type) for side in ("left", "right")):
        return None
    kinds = RECORDS if channel.tombstones else RECORDS[:1]
    mine = pa.array([*kinds, *(kind_for(kind, source.reader) for kind in kinds)], pa.string())
    rows = rows.filter(pc.is_in(rows["kind"], mine))
    keys = [None if key is None else key.encode() for key in rows["key"].to_pylist()]
    sides = zip(*(rows[name].to_pylist() for name in ("kind", "left", "right")), strict=True)
    values = [_pair(left, right) if kind.startswith("value") else None for kind, left, right in sides]
    partitions = [partition_in(source.application.default_partitions, key) for key in keys]
    return _input(rows, channel.channel, {"key": keys, "value": values, "partition": partitions})


def _pair(left: str | None, right: str | None) -> bytes:
    return json.dumps({"left": left, "right": right}, ensure_ascii=False, separators=(",", ":")).encode()


def _input(rows: pa.Table, source: str, columns: Mapping[str, object]) -> pa.Table:
    """The rows of a change feed as rows of INPUT."""
    given = {
        **columns,
        "source": pa.repeat(source, rows.num_rows),
        "timestamp": rows["timestamp"],
        "offset": offsets(rows),
        "arrived": rows["_commit_timestamp"],
    }

    def column(of: pa.Field) -> pa.Array | pa.ChunkedArray:
        values = given.get(of.name)
        if values is None:
            return pa.nulls(rows.num_rows, of.type)
        return pa.array(values, of.type) if isinstance(values, list) else values.cast(of.type)

    return pa.table([column(of) for of in _INPUT], schema=_INPUT)
