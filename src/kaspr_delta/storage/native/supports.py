"""The tables that delta-rs supports, operation by operation. Spark does what is not in this file.

delta-rs 1.6 was tried on a table with each feature of Delta's protocol. Features that it refuses are not listed here,
nor are those whose answers were not compared with Spark's.

In change feeds, and in rows that it copies, delta-rs misreads some times. Spark writes times as INT96 unless a setting
says otherwise (``runtime.spark_settings``). delta-rs counts those in 64 bits of nanoseconds, which hold the years 1678
to 2261: 9999-12-31 comes out as a day of 1816. In queries it can count microseconds instead, but not in change feeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.layout import MAPPED

if TYPE_CHECKING:
    from deltalake import DeltaTable, Field

    from kaspr_delta.storage.folders import Folder
    from kaspr_delta.storage.layout import Layout

Operation = Literal["scan", "look up", "append", "merge"]


@dataclass(frozen=True, slots=True)
class Support:
    """The limits of one operation: protocol features that a table may have, and types of columns. None: any."""

    reader_features: frozenset[str]
    writer_features: frozenset[str] | None = None
    types: Callable[[pa.DataType], bool] | None = None


_READ = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"})
_MERGED = frozenset({"appendOnly", "changeDataFeed", "checkConstraints", "invariants"})
_APPENDED_READ = _READ - {"columnMapping"}

# The features that a version stands for where none are named.
_OF_READER = {1: frozenset[str](), 2: frozenset({"columnMapping"}), 3: frozenset[str]()}
_OF_WRITER = {
    1: frozenset[str](),
    2: frozenset({"appendOnly", "invariants"}),
    3: frozenset({"appendOnly", "invariants", "checkConstraints"}),
    # Generated columns are found by ``_is_computed``.
    4: frozenset({"appendOnly", "invariants", "checkConstraints", "changeDataFeed"}),
    7: frozenset[str](),
}

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
CREATED = frozenset(
    {
        *_WHOLE,
        "BOOLEAN",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "STRING",
        "BINARY",
        "DATE",
        "TIMESTAMP",
        "ARRAY",
        "MAP",
        "STRUCT",
    }
)
"""The types of columns with which delta-rs creates tables; others need features of the protocol, or metadata."""

_YEAR = re.compile(r'"[+-]?(\d{4,})-\d\d-\d\dT')
_YEARS = range(1678, 2262)


def supports(operation: Operation, opened: DeltaTable) -> bool:
    """Whether delta-rs can do an operation on a table, with the answer that Spark gives."""
    support, protocol, schema = SUPPORT[operation], opened.protocol(), opened.schema()
    reads = _features(_OF_READER, protocol.min_reader_version, protocol.reader_features)
    if not reads <= support.reader_features:
        return False
    if support.types is not None and not all(support.types(field.type) for field in pa.schema(schema.to_arrow())):
        return False
    if support.writer_features is None:
        return True
    writes = _features(_OF_WRITER, protocol.min_writer_version, protocol.writer_features)
    return writes <= support.writer_features and not any(map(_is_computed, schema.fields))


def is_plain(kind: pa.DataType) -> bool:
    """Whether delta-rs and Spark have the same values of a type, and compare them alike."""
    return any(is_one(kind) for is_one in (pt.is_string, pt.is_binary, pt.is_timestamp, pt.is_integer, pt.is_boolean))


def is_compared(kind: pa.DataType) -> bool:
    """Whether a MERGE compares values of a type as that of Spark: NaN equals NaN, and -0.0 differs from 0.0."""
    return is_plain(kind) or pt.is_decimal(kind) or pt.is_date(kind) or pt.is_floating(kind)


SUPPORT: Mapping[Operation, Support] = {
    "scan": Support(_READ),
    "look up": Support(_READ, types=is_plain),
    "append": Support(_APPENDED_READ, _MERGED | _APPENDED_READ),
    "merge": Support(frozenset(), _MERGED, is_compared),
}


def can_create(layout: Layout) -> bool:
    """Whether delta-rs creates a table with this layout as Spark does."""
    types = {part.name for column in columns_of(layout.columns) for part in column.type.parts()}
    declares = layout.storage.cluster_by or layout.storage.properties or MAPPED.keys() & layout.properties.keys()
    return types <= CREATED and not declares


def has_plain_files(opened: DeltaTable) -> bool:
    """Whether the data files hold the rows as they are, without deletion vectors or other names of columns."""
    return not _features(_OF_READER, opened.protocol().min_reader_version, opened.protocol().reader_features)


def _features(by_version: Mapping[int, frozenset[str]], version: int, named: Any) -> frozenset[str]:
    """The features of a protocol. An unknown version counts as one unsupported feature."""
    return frozenset(named) if named is not None else by_version.get(version, frozenset({f"version {version}"}))


def _is_computed(field: Field) -> bool:
    """Whether a column has an expression, a default or an invariant."""
    return any(name.startswith("delta.") for name in field.metadata)


def misread(location: Folder, actions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the feed of a commit has such times, by the statistics of the files that it added."""
    added = (action["add"] for action in actions if "add" in action)
    return any(_has_far(file.get("stats") or "") and _has_int96(location, unquote(file["path"])) for file in added)


def may_be_misread(location: Folder, files: pa.Table, columns: Collection[str]) -> bool:
    """Whether columns of files (``get_add_actions``) may have such times."""
    suspects = [file for file in files.to_pylist() if any(_may_be_far(file, column) for column in columns)]
    return any(_has_int96(location, unquote(file["path"])) for file in suspects)


def _may_be_far(file: Mapping[str, Any], column: str) -> bool:
    bounds = [file.get(f"{bound}.{column}") for bound in ("min", "max")]
    return any(bound is None or bound.year not in _YEARS for bound in bounds)


def _has_far(stats: str) -> bool:
    return any(int(year) not in _YEARS for year in _YEAR.findall(stats))


def _has_int96(location: Folder, name: str) -> bool:
    from pyarrow.parquet import ParquetFile

    with location.open(name) as file, ParquetFile(file) as opened:
        columns = opened.metadata.schema
        return any(columns.column(number).physical_type == "INT96" for number in range(len(columns)))
