"""MERGE of rows on the driver into a table in a folder: it takes a third of Spark's time or less."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.spec.ddl import quoted
from kaspr_delta.storage.arrow_types import aligned
from kaspr_delta.storage.layout import BUCKET_CHECKPOINT_INTERVAL
from kaspr_delta.storage.native.delta_rs import merger
from kaspr_delta.storage.native.supports import is_plain, may_be_misread
from kaspr_delta.storage.tables import Merged, Upsert

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.table import TableMerger

    from kaspr_delta.storage.folders import Folder


def merge(location: Folder, opened: DeltaTable, rows: pa.Table, how: Upsert) -> Merged | None:
    """Merge rows into an opened table. The caller holds the lock of the table's commits.

    None where Spark has to do it: where rows are found by other columns than plain ones, where files have times that
    delta-rs misreads, where the table lacks a column, and where several rows have one key, for which Spark raises an
    error.
    """
    schema = pa.schema(opened.schema().to_arrow())
    if not set(how.columns) <= set(schema.names):  # the session that starts adds columns that were declared since
        return None
    if not all(is_plain(schema.field(name).type) for name in how.on):
        return None
    times = [field.name for field in schema if pt.is_timestamp(field.type)]
    if may_be_misread(location, pa.table(opened.get_add_actions(flatten=True)), times):
        return None
    columns = {name: rows[name].cast(schema.field(name).type) for name in how.columns}
    source = aligned(pa.table(columns | {how.keep: rows[how.keep]}))
    keys = source.group_by(list(how.on)).aggregate([])
    if keys.num_rows < source.num_rows:
        return None
    # In a bucket a list is a request, and commits are only removed up to a checkpoint.
    cleans = location.is_here or (opened.version() + 1) % BUCKET_CHECKPOINT_INTERVAL == 0
    done = _merger(opened, source, how, cleans=cleans).execute()
    changed = sum(int(done[f"num_target_rows_{what}"]) for what in ("inserted", "updated", "deleted"))
    return Merged(changed, int(done["num_target_rows_copied"]), int(done["num_target_files_removed"]))


def _merger(opened: DeltaTable, source: pa.Table, how: Upsert, *, cleans: bool) -> TableMerger:
    of_source = {name: f"s.{quoted(name)}" for name in how.columns}
    keep = f"s.{quoted(how.keep)}"
    same = " AND ".join(f"t.{quoted(name)} = {of_source[name]}" for name in how.on)
    # Of floating point the texts: -0.0 differs from 0.0, and NaN from nothing, as in Spark's MERGE.
    form = {name: "CAST({} AS STRING)" if pt.is_floating(source[name].type) else "{}" for name in how.compare}
    pairs = ((form[name].format(f"t.{quoted(name)}"), form[name].format(of_source[name])) for name in how.compare)
    different = " OR ".join(starmap(_differs, pairs)) or "false"
    return (
        merger(opened, source, same, cleans=cleans)
        .when_matched_delete(f"NOT {keep}")
        .when_matched_update({quoted(name): of_source[name] for name in how.changed}, different)
        .when_not_matched_insert({quoted(name): value for name, value in of_source.items()}, keep)
    )


def _differs(one: str, other: str) -> str:
    """``NOT (one <=> other)``; what DataFusion has for that is misread in a MERGE."""
    return f"(({one} IS NULL) <> ({other} IS NULL) OR COALESCE({one} <> {other}, false))"
