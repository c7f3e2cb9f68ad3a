"""Rows of a table on this machine's disk by a few values of its columns, without Spark."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.storage.delta_rs import DeltaRs, literal, quoted, selected

if TYPE_CHECKING:
    from deltalake import DeltaTable

# More values, more rows, and more bytes, are better left to Spark.
_MOST_ROWS = 20_000
_MOST_BYTES = 16 << 20


class LookedUp(NamedTuple):
    """The rows that were found, and in how many files of the table they may be, as these say of themselves."""

    rows: pa.Table
    files: int


def looked_up(
    delta: DeltaRs, table: str, values: Mapping[str, Collection[str]], version: int | None = None
) -> LookedUp | None:
    """The rows that have one of some values in a column, or in another column one of others.

    None where only Spark can tell: too many values or rows, types or features of the table that are not read here.
    """
    if sum(map(len, values.values())) > _MOST_ROWS:
        return None
    statement = f"SELECT * FROM t WHERE {_condition(values)} LIMIT {_MOST_ROWS + 1}"
    try:
        opened = delta.opened(table, version)
        if opened is None:
            return None
        schema = pa.schema(opened.schema().to_arrow())
        if not all(_is_plain(field.type) for field in schema):
            return None
        found = list(selected(statement, t=opened))
        rows = pa.Table.from_batches(found).cast(schema) if found else schema.empty_table()
    except Exception:  # noqa: BLE001  whatever it was: Spark can tell, or says what is wrong
        return None
    if rows.num_rows > _MOST_ROWS or rows.nbytes > _MOST_BYTES:
        return None
    return LookedUp(rows, _files(opened, values))


def _is_plain(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in (pt.is_string, pt.is_binary, pt.is_timestamp, pt.is_integer, pt.is_boolean))


def _condition(values: Mapping[str, Collection[str]]) -> str:
    listed = {column: ", ".join(map(literal, some)) for column, some in values.items() if some}
    return " OR ".join(f"{quoted(column)} IN ({some})" for column, some in listed.items()) or "false"


def _files(opened: DeltaTable, values: Mapping[str, Collection[str]]) -> int:
    """How many files may have one of the values, by the least and the greatest that each says it has."""
    files = pa.table(opened.get_add_actions(flatten=True))
    may_have = [False] * files.num_rows
    for column, some in values.items():
        wanted = sorted(some)
        bounds = [f"{bound}.{column}" for bound in ("min", "max")]
        if not set(bounds) <= set(files.column_names):  # nothing is told
            return int(files.num_rows)
        for number, (least, greatest) in enumerate(zip(*(files[name].to_pylist() for name in bounds), strict=True)):
            unknown = least is None or greatest is None
            may_have[number] |= unknown or bisect_left(wanted, least) < bisect_right(wanted, greatest)
    return sum(may_have)
