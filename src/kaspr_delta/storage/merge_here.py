"""MERGE of rows of this process into a table on this machine's disk, without Spark: in a fraction of the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.storage.delta_rs import PLAIN_READER, DeltaRs, is_plain, quoted
from kaspr_delta.storage.far_times import may_be_misread
from kaspr_delta.storage.merge import Merged, Upsert

if TYPE_CHECKING:
    from pathlib import Path

    from deltalake import DeltaTable, Field
    from deltalake.table import TableMerger

# What delta-rs keeps to when it writes; tables of an older version have no more than that.
_PLAIN_WRITER = 4
_FEATURES = frozenset({"appendOnly", "changeDataFeed", "checkConstraints", "invariants"})


def merged_here(delta: DeltaRs, table: str, rows: pa.Table, how: Upsert) -> Merged | None:
    """Bring rows of a table to a given state.

    For who holds the lock of the table's commits. None where only Spark can: types or features of the table that are
    not written here, and rows of which several have the same key.
    """
    location = delta.namespace.location(table)
    if location is None:
        return None
    try:
        opened = delta.opened(table)
        if opened is None or not _is_written_here(location, opened):
            return None
        source = _source(rows, pa.schema(opened.schema().to_arrow()), how)
        if _several_of_a_key(source, how.on):
            return None
        done = _merger(delta, opened, source, how).execute()
    except Exception:  # noqa: BLE001  whatever it was: Spark can, or says what is wrong; a MERGE may be repeated
        return None
    changed = sum(int(done[f"num_target_rows_{what}"]) for what in ("inserted", "updated", "deleted"))
    return Merged(changed, int(done["num_target_rows_copied"]), int(done["num_target_files_removed"]))


def _is_written_here(location: Path, opened: DeltaTable) -> bool:
    protocol, schema = opened.protocol(), pa.schema(opened.schema().to_arrow())
    features = protocol.writer_features or ()
    is_plain_writer = protocol.min_writer_version <= _PLAIN_WRITER or _FEATURES.issuperset(features)
    if protocol.min_reader_version != PLAIN_READER or not is_plain_writer:
        return False
    if not all(is_plain(field.type) for field in schema) or any(map(_is_computed, opened.schema().fields)):
        return False
    times = [field.name for field in schema if pt.is_timestamp(field.type)]
    return not may_be_misread(location, pa.table(opened.get_add_actions(flatten=True)), times)


def _is_computed(field: Field) -> bool:
    """Whether a column has an expression or an invariant."""
    told: Iterable[str] = field.metadata
    return any(name.startswith("delta.") for name in told)


def _source(rows: pa.Table, schema: pa.Schema, how: Upsert) -> pa.Table:
    columns = {name: rows[name].cast(schema.field(name).type) for name in how.columns}
    return pa.table(columns | {how.keep: rows[how.keep]})


def _several_of_a_key(rows: pa.Table, on: Sequence[str]) -> bool:
    return bool(rows.group_by(list(on)).aggregate([]).num_rows < rows.num_rows)


def _merger(delta: DeltaRs, opened: DeltaTable, source: pa.Table, how: Upsert) -> TableMerger:
    of_source = {name: f"s.{quoted(name)}" for name in how.columns}
    keep = f"s.{quoted(how.keep)}"
    same = " AND ".join(f"t.{quoted(name)} = {of_source[name]}" for name in how.on)
    different = " OR ".join(_differs(f"t.{quoted(name)}", of_source[name]) for name in how.compare) or "false"
    return (
        delta.merger(opened, source, same)
        .when_matched_delete(f"NOT {keep}")
        .when_matched_update({quoted(name): of_source[name] for name in how.changed}, different)
        .when_not_matched_insert({quoted(name): value for name, value in of_source.items()}, keep)
    )


def _differs(one: str, other: str) -> str:
    """``NOT (one <=> other)``; what DataFusion has for that is misread in a MERGE."""
    return f"(({one} IS NULL) <> ({other} IS NULL) OR COALESCE({one} <> {other}, false))"
