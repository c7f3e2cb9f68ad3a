"""Times that delta-rs misreads in a change feed.

Spark writes times as INT96 unless it is told otherwise (``runtime.session``). delta-rs counts those in 64 bits of
nanoseconds, which hold the years 1678 to 2261: 9999-12-31 comes out as a day of 1816. Of queries, not of feeds, it can
be told to count microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_YEAR = re.compile(r'"[+-]?(\d{4,})-\d\d-\d\dT')
_YEARS = range(1678, 2262)


def misread(location: Path, actions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a commit's feed has such times, as far as the statistics of the files that it added tell."""
    added = (action["add"] for action in actions if "add" in action)
    return any(_has_far(file.get("stats") or "") and _has_int96(location / unquote(file["path"])) for file in added)


def _has_far(stats: str) -> bool:
    return any(int(year) not in _YEARS for year in _YEAR.findall(stats))


def _has_int96(file: Path) -> bool:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as opened:
        columns = opened.metadata.schema
        return any(columns.column(number).physical_type == "INT96" for number in range(len(columns)))
