"""Batches with too many records to hold, described by ranges of offsets, one per commit.

Every query of a streaming batch computes all columns of all its rows. So the batch is queried once, for its ranges.
Then, if all its commits are complete, records are read from their tables by offsets: there Spark reads only the files
and columns that it needs. An ordered agent reads them in pieces that fit the driver.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kaspr_delta.engine.rows.local_rows import table_within
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.rows.sequence import SEQ_BITS, SEQ_MASK, end_of, seq_of
from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.limits import Limits, Size


class OffsetRange(NamedTuple):
    """The records of a batch from one commit to a topic or channel; ``size`` is the bytes of keys and values."""

    source: str
    version: int
    last_offset: int
    rows: int
    size: int


def size() -> Column:
    """The bytes of a record's key and value."""
    return F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))


def _by_source(ranges: Iterable[OffsetRange]) -> dict[str, list[OffsetRange]]:
    """The ranges of each source, in the order of its commits."""
    return {source: list(found) for source, found in groupby(sorted(ranges), key=attrgetter("source"))}


@dataclass
class Received:
    """The records received so far: the last offset and the number of records, by source."""

    positions: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange]) -> Received:
        """The records of these ranges, in any order."""
        received = cls()
        for one in sorted(ranges):
            received._add(one.source, one.last_offset, one.rows)
        return received

    def counted(self, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The pieces; each is counted when it is taken. Its records come after those counted before."""
        for piece in pieces:
            by_source = piece.group_by("source").aggregate([("offset", "max"), ([], "count_all")])
            for row in by_source.to_pylist():
                self._add(row["source"], row["offset_max"], row["count_all"])
            yield piece

    def _add(self, source: str, last_offset: int, rows: int) -> None:
        self.positions[source] = last_offset
        self.rows[source] = self.rows.get(source, 0) + rows


class Feed(Protocol):
    """The origin of a batch's records."""

    def between(self, spark: SparkSession, after: Mapping[str, int], upto: Mapping[str, int]) -> DataFrame:
        """The records after positions ``after``, up to and with ``upto``, by source."""


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """A batch whose records are read again. ``whole``: it has all records of its commits."""

    records: DataFrame
    feed: Feed
    ranges: Sequence[OffsetRange]
    whole: bool

    @classmethod
    def of(cls, records: DataFrame, feed: Feed) -> LargeBatch:
        """Make a batch of rows of InputRecord, which the feed has too. One Spark action, and at most two a source."""
        commits = records.groupBy("source", F.shiftright("offset", SEQ_BITS))
        found = commits.agg(F.max("offset"), F.count("*"), F.sum(size())).collect()
        ranges = [OffsetRange(*row) for row in found]
        return cls(records, feed, ranges, _are_whole(ranges, feed, records.sparkSession))

    def all(self) -> DataFrame:
        versions = [one.version for one in self.ranges]
        return self.between(end_of(min(versions) - 1), end_of(max(versions)))

    def between(self, after: int, upto: int) -> DataFrame:
        """The records after an offset, up to and with another."""
        if not self.whole:
            return self.records.where(F.col("offset").between(after + 1, upto))
        found = _by_source(self.ranges)
        first = {source: max(after, end_of(those[0].version - 1)) for source, those in found.items()}
        last = {source: min(upto, those[-1].last_offset) for source, those in found.items()}
        some = {source: last[source] for source in found if first[source] < last[source]}
        return self.feed.between(self.records.sparkSession, {source: first[source] for source in some}, some)


def _are_whole(ranges: Sequence[OffsetRange], feed: Feed, spark: SparkSession) -> bool:
    """Whether a batch has all records of its commits. A stream may split the files of a large commit into batches.

    So only the first and the last commit of each source can be incomplete.
    """

    def is_whole(one: OffsetRange) -> bool:
        commit = feed.between(spark, {one.source: end_of(one.version - 1)}, {one.source: end_of(one.version)})
        return commit.count() == one.rows

    return all(is_whole(one) for found in _by_source(ranges).values() for one in {found[0], found[-1]})


@dataclass(frozen=True, slots=True)
class Numbering:
    """Sequence numbers for the effects of records: in the order of the records, whichever task processes them.

    ``firsts`` has the first position of each of the ``commits``. A record has ``each`` numbers, from ``each`` times its
    position on.
    """

    commits: tuple[int, ...]
    firsts: tuple[int, ...]
    each: int

    @classmethod
    def of(cls, ranges: Collection[OffsetRange], each: int) -> Numbering | None:
        """``each`` numbers for a record; None if there are several sources, or if one commit cannot hold so many."""
        in_order = sorted(ranges)
        *firsts, after = accumulate((seq_of(one.last_offset) + 1 for one in in_order), initial=0)
        if len({one.source for one in ranges}) != 1 or after * each > SEQ_MASK:
            return None
        return cls(tuple(one.version for one in in_order), tuple(firsts), each)

    def numbers(self, offsets: pa.Array) -> pa.Array:
        """The first number of each record, given the offsets."""
        commits = pc.index_in(pc.shift_right(offsets, SEQ_BITS), value_set=pa.array(self.commits, pa.int64()))
        firsts = pa.array(self.firsts, pa.int64()).take(commits)
        return pc.multiply(pc.add(firsts, pc.bit_wise_and(offsets, SEQ_MASK)), self.each)


def in_offset_order(given: Rows, feed: Feed, limits: Limits) -> Iterator[pa.Table]:
    """Rows of InputRecord, sorted by offset and then source; one table or more. The feed can read the same rows.

    The next piece is read while one is processed. All rows at once might be far larger than the files that hold them.
    """
    few = table_within(given, Size(limits.ordered_records, sys.maxsize))
    if few is not None:
        yield in_order(few)
        return
    records = given.df
    batch = LargeBatch.of(records, feed)

    def read(after: int, upto: int) -> pa.Table:
        return in_order(collected(batch.between(after, upto).select(*records.columns)))

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
    bounds, filled = [end_of(min(sizes) - 1)], 0
    for version in sorted(sizes):
        if filled and filled + sizes[version] > most:
            bounds.append(end_of(version - 1))
            filled = 0
        filled += sizes[version]
        if filled > most:
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


def in_order(records: pa.Table) -> pa.Table:
    """Rows of InputRecord, sorted by offset and then source."""
    # Sorting a chunked table is many times slower.
    return records.combine_chunks().sort_by([("offset", "ascending"), ("source", "ascending")])
