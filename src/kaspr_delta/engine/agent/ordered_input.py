"""The records of a batch in the order in which they were written, in pieces that fit the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.agent.extent import Extent, extents_of, positions_of, size
from kaspr_delta.engine.sequence import end_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Reread: TypeAlias = "Callable[[int, Mapping[str, int]], DataFrame]"
"""Reads some of a batch's records where they came from: those after an offset, up to one of each source."""

# So many records are read at once; of more it is asked first how large they are.
_FEW_RECORDS = 50_000
# The keys and values of a piece are so large, or it is one record: the JVM holds them several times on their way.
_PIECE_BYTES = 64 << 20


def in_offset_order(records: DataFrame, reread: Reread) -> Iterator[pa.Table]:
    """Rows of InputRecord by offset, those of one offset by source; one table or more.

    While a piece is worked on the next one is read. All at once might be far larger than the files that they come from.
    """
    few = records.limit(_FEW_RECORDS + 1).toArrow()
    if few.num_rows <= _FEW_RECORDS:
        yield _sorted(few)
        return
    del few
    backlog = _Backlog(extents_of(records), reread)
    ranges = list(pairwise(backlog.bounds()))
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(backlog.piece, *ranges[0])
        for following in ranges[1:]:
            piece = coming.result()
            coming = reader.submit(backlog.piece, *following)
            yield piece
        yield coming.result()


@dataclass
class Received:
    """What was received so far: by source the greatest offset, and how many records."""

    positions: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def counted(self, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The pieces, each counted when it is taken."""
        for piece in pieces:
            self.count(piece)
            yield piece

    def count(self, piece: pa.Table) -> None:
        """Count records that come after those before."""
        by_source = piece.group_by("source").aggregate([("offset", "max"), ([], "count_all")])
        for row in by_source.to_pylist():
            self.positions[row["source"]] = row["offset_max"]
            self.rows[row["source"]] = self.rows.get(row["source"], 0) + row["count_all"]


@dataclass(frozen=True, slots=True)
class _Backlog:
    """Records that are too many to be read at once."""

    extents: Sequence[Extent]
    reread: Reread

    def bounds(self) -> list[int]:
        """The offsets after which pieces begin, and the one with which the last ends: between commits if possible."""
        sizes: Counter[int] = Counter()
        for extent in self.extents:
            sizes[extent.version] += extent.size
        bounds, size = [end_of(min(sizes) - 1)], 0
        for version in sorted(sizes):
            if size and size + sizes[version] > _PIECE_BYTES:
                bounds.append(end_of(version - 1))
                size = 0
            size += sizes[version]
            if size > _PIECE_BYTES:
                bounds += self._inside(version)
        return [*bounds, end_of(max(sizes))]

    def piece(self, after: int, upto: int) -> pa.Table:
        """The records after an offset, up to and with another."""
        return _sorted(self._between(after, upto).toArrow())

    def _inside(self, version: int) -> list[int]:
        """Where pieces of a commit end, all but the last."""
        records = self._between(end_of(version - 1), end_of(version))
        sizes = records.select("offset", size().alias("size")).toArrow().combine_chunks().sort_by("offset")
        upto = pc.cumulative_sum(sizes["size"].cast(pa.int64()))
        numbered = sizes.append_column("piece", pc.divide(upto, _PIECE_BYTES))
        last = numbered.group_by("piece").aggregate([("offset", "max")])["offset_max"]
        return sorted(set(last.to_pylist()))[:-1]

    def _between(self, after: int, upto: int) -> DataFrame:
        reached = positions_of(self.extents)
        return self.reread(after, {source: min(upto, last) for source, last in reached.items() if after < last})


def _sorted(records: pa.Table) -> pa.Table:
    # In chunks it would be sorted many times as slowly.
    return records.combine_chunks().sort_by([("offset", "ascending"), ("source", "ascending")])
