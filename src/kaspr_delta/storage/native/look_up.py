"""Rows of a table in a folder of this machine by the texts in their columns, without Spark."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.storage.native.delta_rs import rows_in, selected
from kaspr_delta.storage.native.sql_text import literal, quoted
from kaspr_delta.storage.native.supports import has_plain_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from kaspr_delta.storage.tables import Texts

# More values, more rows, and more bytes, are better left to Spark.
_MOST_ROWS = 200_000
_MOST_BYTES = 64 << 20
# So many values are searched for, and in larger tables one for so many rows: files say which of their pages may have
# one. For more of them all pages are read, which takes a fixed time; or as many again are searched for where files are
# not all that tells what the rows are.
_SEARCHED = 1_000
_ROWS_SEARCHED = 1_000
_MOST_SEARCHED = 20_000


class LookedUp(NamedTuple):
    """The rows that were found, and in how many files of the table they may be, as these say of themselves."""

    rows: pa.Table
    files: int


def look_up(location: Path, opened: DeltaTable, texts: Texts) -> LookedUp | None:
    """The rows that have one of the texts in one of the columns; None if there are too many texts or rows."""
    if _count(texts) > _MOST_ROWS:
        return None
    files = pa.table(opened.get_add_actions(flatten=True))
    batches = _found(location, opened, texts, rows_in(files) or 0)
    rows = None if batches is None else _bounded(batches, pa.schema(opened.schema().to_arrow()))
    return None if rows is None else LookedUp(rows, _files(files, texts))


def _count(texts: Texts) -> int:
    return sum(map(len, texts.values()))


def _found(location: Path, opened: DeltaTable, texts: Texts, rows: int) -> Iterable[pa.RecordBatch] | None:
    wanted = _count(texts)
    if wanted > max(_SEARCHED, rows // _ROWS_SEARCHED) and has_plain_files(opened):
        return _scanned(location, opened, texts)
    if wanted > _MOST_SEARCHED:
        return None
    return selected(f"SELECT * FROM t WHERE {_condition(texts)} LIMIT {_MOST_ROWS + 1}", t=opened)


def _condition(texts: Texts) -> str:
    return " OR ".join(_is_one(quoted(column), some) for column, some in texts.items() if some) or "false"


def _is_one(column: str, some: Collection[str]) -> str:
    # Pages are told apart by the bounds, not by more than 20 values: without them all of a file is fetched.
    least, greatest = literal(min(some)), literal(max(some))
    return f"({column} >= {least} AND {column} <= {greatest} AND {column} IN ({', '.join(map(literal, some))}))"


def _scanned(location: Path, opened: DeltaTable, texts: Texts) -> Iterable[pa.RecordBatch]:
    """The rows among all of the files; Arrow reads them in a third of the time of the one who could search."""
    # Not before they are needed: the web side asks for other rows, and is to start at once.
    from pyarrow.dataset import ParquetReadOptions
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    rows = opened.to_pyarrow_dataset(
        filesystem=SubTreeFileSystem(str(location), LocalFileSystem()),
        parquet_read_options=ParquetReadOptions(coerce_int96_timestamp_unit="us"),
    )
    wanted = (pc.field(column).isin(pa.array(some, pa.string())) for column, some in texts.items() if some)
    # What is read ahead is the memory that this takes.
    read: Iterable[pa.RecordBatch]
    read = rows.to_batches(filter=reduce(or_, wanted), batch_readahead=4, fragment_readahead=2)
    return read


def _bounded(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table | None:
    """All of them, with these types; None as soon as they are too much."""
    found = [schema.empty_table()]
    rows = size = 0
    for batch in batches:
        one = pa.Table.from_batches([batch]).cast(schema)
        rows, size = rows + one.num_rows, size + one.nbytes
        if rows > _MOST_ROWS or size > _MOST_BYTES:
            return None
        found.append(one)
    return pa.concat_tables(found)


def _files(files: pa.Table, texts: Texts) -> int:
    """How many files may have one of the values, by the least and the greatest that each says it has."""
    may_have = [False] * files.num_rows
    for column, some in texts.items():
        wanted = sorted(some)
        bounds = [f"{bound}.{column}" for bound in ("min", "max")]
        if not set(bounds) <= set(files.column_names):  # nothing is told
            return int(files.num_rows)
        for number, (least, greatest) in enumerate(zip(*(files[name].to_pylist() for name in bounds), strict=True)):
            unknown = least is None or greatest is None
            may_have[number] |= unknown or bisect_left(wanted, least) < bisect_right(wanted, greatest)
    return sum(may_have)
