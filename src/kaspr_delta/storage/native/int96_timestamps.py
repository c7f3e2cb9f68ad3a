"""Times that delta-rs misreads: in a change feed, and in rows that it copies.

Spark writes times as INT96 unless a setting says otherwise (``runtime.session``). delta-rs counts those in 64 bits of
nanoseconds, which hold the years 1678 to 2261: 9999-12-31 comes out as a day of 1816. In queries it can count
microseconds instead, but not in change feeds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    import pyarrow as pa

_YEAR = re.compile(r'"[+-]?(\d{4,})-\d\d-\d\dT')
_YEARS = range(1678, 2262)


def misread(location: Path, actions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the feed of a commit has such times, by the statistics of the files that it added."""
    added = (action["add"] for action in actions if "add" in action)
    return any(_has_far(file.get("stats") or "") and _has_int96(location / unquote(file["path"])) for file in added)


def may_be_misread(location: Path, files: pa.Table, columns: Collection[str]) -> bool:
    """Whether columns of files (``get_add_actions``) may have such times."""
    suspects = [file for file in files.to_pylist() if any(_may_be_far(file, column) for column in columns)]
    return any(_has_int96(location / unquote(file["path"])) for file in suspects)


def _may_be_far(file: Mapping[str, Any], column: str) -> bool:
    bounds = [file.get(f"{bound}.{column}") for bound in ("min", "max")]
    return any(bound is None or bound.year not in _YEARS for bound in bounds)


def _has_far(stats: str) -> bool:
    return any(int(year) not in _YEARS for year in _YEAR.findall(stats))


def _has_int96(file: Path) -> bool:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as opened:
        columns = opened.metadata.schema
        return any(columns.column(number).physical_type == "INT96" for number in range(len(columns)))
