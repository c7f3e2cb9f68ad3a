"""Rows as slices of larger tables: for these, functions of Arrow 21 and older have returned wrong values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.engine.rows.rows import Rows

NO_SPARK: Any = None


def as_slice_of_larger_table(rows: pa.Table) -> pa.Table:
    """The same rows, as a slice behind other rows in the same memory."""
    return pa.concat_tables([rows, rows]).combine_chunks().slice(rows.num_rows)


def local_rows(schema: pa.Schema, *found: dict[str, Any]) -> LocalRows:
    """Rows on the driver, without Spark. A column that a row lacks is NULL."""
    return LocalRows(NO_SPARK, as_slice_of_larger_table(pa.Table.from_pylist(list(found), schema)))


def listed(found: Rows) -> list[dict[str, Any]]:
    """The rows, which must be on the driver."""
    assert isinstance(found, LocalRows)
    values: list[dict[str, Any]] = found.table.to_pylist()
    return values
