"""Rows of a table in a folder by the texts in their columns, without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.dialect import DATAFUSION
from kaspr_delta.storage.limits import Limits, Size
from kaspr_delta.storage.native.delta_rs import rows_in, selected
from kaspr_delta.storage.native.supports import has_plain_files

# A file is read in so many parts by DataFusion: its footer, the column that is searched, and the others.
_PARTS_OF_A_FILE = 3
_SMALL_BYTES = 1 << 20

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    from kaspr_delta.storage.folders import Folder
    from kaspr_delta.storage.tables import Texts


def look_up(location: Folder, opened: DeltaTable, texts: Texts, limits: Limits) -> pa.Table | None:
    """The rows that have one of the texts in one of the columns; None if there are too many texts or rows."""
    wanted = sum(map(len, texts.values()))
    if wanted > limits.looked_up.rows:
        return None
    files = pa.table(opened.get_add_actions(flatten=True))
    if not location.is_here and wanted and _are_small(files) and has_plain_files(opened):
        schema = pa.schema(opened.schema().to_arrow())
        return _bounded(_read_whole(location, files, schema, texts), schema, limits.looked_up)
    searched = max(limits.searched_texts, (rows_in(files) or 0) // limits.rows_per_searched_text)
    if wanted > searched and has_plain_files(opened):
        batches = _scanned(location, opened, texts)
    elif wanted > limits.most_searched_texts:
        return None
    else:
        condition = " OR ".join(_is_one(quoted(column), some) for column, some in texts.items() if some) or "false"
        batches = selected(f"SELECT * FROM t WHERE {condition} LIMIT {limits.looked_up.rows + 1}", t=opened)
    return _bounded(batches, pa.schema(opened.schema().to_arrow()), limits.looked_up)


def _is_one(column: str, some: Collection[str]) -> str:
    # DataFusion prunes pages by bounds, and by an IN list only up to 20 values.
    least, greatest = DATAFUSION.text(min(some)), DATAFUSION.text(max(some))
    return f"({column} >= {least} AND {column} <= {greatest} AND {column} IN {DATAFUSION.texts(some)})"


def _are_small(files: pa.Table) -> bool:
    """Whether files (``get_add_actions``) take fewer requests if each is read as a whole and not in parts."""
    few = files.num_rows <= _PARTS_OF_A_FILE and "://" not in "".join(files["path"].to_pylist())
    partitioned = any(name.startswith("partition.") for name in files.column_names)
    return few and not partitioned and sum(files["size_bytes"].to_pylist()) <= _SMALL_BYTES


def _read_whole(location: Folder, files: pa.Table, schema: pa.Schema, texts: Texts) -> Iterator[pa.RecordBatch]:
    """The rows found in files, each of which is read by one request."""
    from pyarrow.parquet import read_table

    for path in files["path"].to_pylist():
        with location.open(unquote(path)) as file:
            rows = read_table(file, schema=schema, filters=_wanted(texts), coerce_int96_timestamp_unit="us")
        yield from rows.to_batches()


def _wanted(texts: Texts) -> pc.Expression:
    import pyarrow.compute as pc

    return reduce(or_, (pc.field(column).isin(pa.array(some, pa.string())) for column, some in texts.items() if some))


def _scanned(location: Folder, opened: DeltaTable, texts: Texts) -> Iterable[pa.RecordBatch]:
    """The rows found by a scan of all files by Arrow, in a third of the time of DataFusion."""
    # Imported late: the web side does without, and starts quicker.
    from pyarrow.dataset import ParquetReadOptions
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    rows = opened.to_pyarrow_dataset(
        filesystem=SubTreeFileSystem(str(location), LocalFileSystem()) if location.is_here else None,
        parquet_read_options=ParquetReadOptions(coerce_int96_timestamp_unit="us"),
    )
    # The read-ahead bounds the memory.
    read: Iterable[pa.RecordBatch] = rows.to_batches(filter=_wanted(texts), batch_readahead=4, fragment_readahead=2)
    return read


def _bounded(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most: Size) -> pa.Table | None:
    """All batches in one table of this schema; None if they exceed the limits."""
    found = [schema.empty_table()]
    rows = size = 0
    for batch in batches:
        one = pa.Table.from_batches([batch]).cast(schema)
        rows, size = rows + one.num_rows, size + one.nbytes
        if rows > most.rows or size > most.bytes:
            return None
        found.append(one)
    return pa.concat_tables(found)
