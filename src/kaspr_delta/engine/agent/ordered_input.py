"""The records of a batch in the order in which they were written, in pieces that fit the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.rows.sequence import end_of
from kaspr_delta.engine.streams.offset_range import Feed, LargeBatch, size
from kaspr_delta.storage.limits import Limits
from kaspr_delta.storage.spark.frames import collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def in_offset_order(records: DataFrame, feed: Feed, limits: Limits) -> Iterator[pa.Table]:
    """Rows of InputRecord, sorted by offset and then source; one table or more. The feed can read the same rows.

    The next piece is read while one is processed. All rows at once might be far larger than the files that hold them.
    """
    few = collected(records.limit(limits.ordered_records + 1))
    if few.num_rows <= limits.ordered_records:
        yield _sorted(few)
        return
    del few
    batch = LargeBatch.of(records, feed)

    def read(after: int, upto: int) -> pa.Table:
        return _sorted(collected(batch.between(after, upto).select(*records.columns)))

    ranges = list(pairwise(_bounds(batch, limits.ordered_piece)))
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(read, *ranges[0])
        for following in ranges[1:]:
            piece = coming.result()
            coming = reader.submit(read, *following)
            yield piece
        yield coming.result()


def _bounds(batch: LargeBatch, most: int) -> list[int]:
    """The offsets after which pieces begin, and the last offset of the last piece: between commits if possible.

    ``most`` is the number of bytes of a piece.
    """
    sizes: Counter[int] = Counter()
    for one in batch.ranges:
        sizes[one.version] += one.size
    bounds, held = [end_of(min(sizes) - 1)], 0
    for version in sorted(sizes):
        if held and held + sizes[version] > most:
            bounds.append(end_of(version - 1))
            held = 0
        held += sizes[version]
        if held > most:
            bounds += _inside(batch, version, most)
    return [*bounds, end_of(max(sizes))]


def _inside(batch: LargeBatch, version: int, most: int) -> list[int]:
    """The last offsets of the pieces of one commit, without the last piece."""
    records = batch.between(end_of(version - 1), end_of(version))
    each = collected(records.select("offset", size().alias("size")))
    # Records of one offset (of several sources) stay in one piece, whatever the order in which Spark returns them.
    sizes = each.group_by("offset").aggregate([("size", "sum")]).sort_by("offset")
    upto = pc.cumulative_sum(sizes["size_sum"])
    numbered = sizes.append_column("piece", pc.divide(upto, most))
    last = numbered.group_by("piece").aggregate([("offset", "max")])["offset_max"]
    return sorted(last.to_pylist())[:-1]


def _sorted(records: pa.Table) -> pa.Table:
    # Sorting a chunked table is many times slower.
    return records.combine_chunks().sort_by([("offset", "ascending"), ("source", "ascending")])
