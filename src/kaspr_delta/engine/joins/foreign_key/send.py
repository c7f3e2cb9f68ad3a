"""Hop 1, on the left side: the foreign key of each touched row, and the instruction that goes with it.

The counterpart of Kafka Streams' ``SubscriptionSendProcessorSupplier``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.dead_letters import ARROW_PROBLEM
from kaspr_delta.engine.joins.foreign_key.foreign_key_columns import ForeignKeyColumns
from kaspr_delta.engine.joins.foreign_key.instruction import instruction
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.engine.streams.selector import Problem, Selector, duplicates, problem
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.joins import JoinType
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_values import from_columns, written
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.layout import PROBLEM

if TYPE_CHECKING:
    from pyspark.sql import Column

# The columns that ``Extract`` adds to those of ``known``.
_ADDED = f"fk STRING, problem {PROBLEM}, stale BOOLEAN"
_READ = ("key", "left", "woken", "old_fk", "copies")
_OF_LEFT = ("left", "left_hash")
NEVER_SEEN: Mapping[str, bool | int | None] = {"woken": False, "old_fk": None, "old_hash": None, "copies": 1}
"""Columns of ``known`` for left keys that the join has never seen, each with one row; None is a NULL text."""
_EXTRACTED = pa.schema([("live", pa.bool_()), ("fk", pa.string()), ("problem", ARROW_PROBLEM), ("stale", pa.bool_())])


class Extracted(NamedTuple):
    """The result of the extractor for a left row. A row that is not ``live`` counts as deleted."""

    live: bool
    fk: str | None = None
    problem: dict[str, str | None] | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Extract:
    """Runs the extractor over left rows and adds ``fk``, ``problem`` and ``stale``. ``row_type`` is None for text.

    A left row that was only woken by its right row, and has not changed since it subscribed (same hash), keeps its
    foreign key: the extractor is not called. A woken left row that has changed is ``stale``. If the extractor fails,
    ``fk`` is NULL, and the row gets a dead letter. A value that the table's serializer cannot read counts as deleted,
    and gets a dead letter.
    """

    extractor: Selector
    left: TableText
    row_type: Type | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            known = _known(batch)
            unchanged = _unchanged(known)
            doubled = pc.fill_null(pc.greater(known["copies"], 1), fill_value=False)
            # One right row may wake very many left rows: those that are unchanged do not go through Python.
            seen = pc.or_(pc.invert(unchanged), doubled)
            read = [known[name].filter(seen) for name in _READ]
            found = None if pc.any(doubled).as_py() else self._together(*read[:3])
            if found is None:
                found = self._one_by_one(*read, unchanged.filter(seen))
            found = found.take(_places_among(seen))
            names, kept = batch.schema.names, batch.columns
            if self.row_type is None:
                gone = pc.fill_null(pc.invert(found["live"]), fill_value=False)
                kept = [
                    pc.if_else(gone, pa.nulls(len(column), column.type), column) if name in _OF_LEFT else column
                    for name, column in zip(names, kept, strict=True)
                ]
            fk = pc.if_else(seen, found["fk"], known["old_fk"])
            stale = pc.fill_null(found["stale"], fill_value=False)
            added = {"fk": fk, "problem": found["problem"], "stale": stale}
            yield pa.RecordBatch.from_arrays([*kept, *added.values()], [*names, *added])

    def _together(self, key: pa.Array, left: pa.Array, woken: pa.Array) -> pa.RecordBatch | None:
        """The same as ``_checked`` for all changed rows at once, which is faster; None if any of them fails."""
        live = left.is_valid()
        rows, keys = (column.filter(live).to_pylist() for column in (left, key))
        fks = self.extractor.keys_of(map(self._value, rows), map(self.left.event_key, keys))
        if fks is None:
            return None
        placed = pa.array(fks, pa.string()).take(_places_among(live))
        found = [live, placed, pa.nulls(len(left), ARROW_PROBLEM), woken]
        return pa.RecordBatch.from_arrays(found, schema=_EXTRACTED)

    def _one_by_one(self, *columns: pa.Array) -> pa.RecordBatch:
        rows = map(self._checked, *(column.to_pylist() for column in columns))
        found = list(zip(*rows, strict=True)) or [()] * len(_EXTRACTED)
        arrays = [pa.array(column, one.type) for column, one in zip(found, _EXTRACTED, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_EXTRACTED)

    def _checked(  # noqa: PLR0917, PLR0913  one per column
        self,
        key: str,
        left: Any,
        woken: bool,  # noqa: FBT001
        old_fk: str | None,
        copies: int | None,
        unchanged: bool,  # noqa: FBT001
    ) -> Extracted:
        if unchanged:
            return Extracted(left is not None, old_fk, self._duplicates(copies, left))
        if left is None:
            return Extracted(live=False, stale=woken)
        return self._extract(key, left, self._duplicates(copies, left))._replace(stale=woken)

    def _extract(self, key: str, left: Any, doubled: Problem | None) -> Extracted:
        try:
            value, left_key = self._value(left), self.left.event_key(key)
        except SerializationError as error:
            return Extracted(live=False, problem=problem("value cannot be read", str(error), self._text(left)))
        fk, failure = self.extractor(value, left_key, None)
        if failure is not None:
            failure["value"] = self._text(left)
        return Extracted(live=True, fk=fk, problem=failure or doubled)

    def _duplicates(self, copies: int | None, left: Any) -> Problem | None:
        return duplicates(copies, self._text(left)) if copies is not None and copies > 1 else None

    def _value(self, left: Any) -> Any:
        return self.left.value_object(left) if self.row_type is None else from_columns(self.row_type, left)

    def _text(self, left: Any) -> str:
        return str(left) if self.row_type is None else value_text(written(self.row_type, self._value(left), "the row"))


def _known(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of a batch; missing ones have the values of ``NEVER_SEEN``."""
    known = dict(zip(batch.schema.names, batch.columns, strict=True))
    missing = {name: value for name, value in NEVER_SEEN.items() if name not in known}
    for name, value in missing.items():
        known[name] = pa.repeat(pa.scalar(value, pa.string() if value is None else None), batch.num_rows)
    return known


def _unchanged(known: Mapping[str, pa.Array]) -> pa.BooleanArray:
    """Whether each left row was only woken, and has not changed since it subscribed."""
    old, new = known["old_hash"], known["left_hash"]
    same = pc.fill_null(pc.equal(old, new), fill_value=False)
    return pc.and_(known["woken"], pc.or_(same, pc.and_(pc.is_null(old), pc.is_null(new))))


def _places_among(those: pa.BooleanArray) -> pa.Array:
    """For each selected row its index among the selected rows; NULL for other rows."""
    return pc.if_else(those, pc.subtract(pc.cumulative_sum(those.cast(pa.int64())), 1), None)


def send(
    known: Rows,
    join_type: JoinType,
    extract: Extract,
    columns: ForeignKeyColumns | None = None,
    *,
    of_all: Mapping[str, Column] | None = None,
) -> Rows:
    """Return left keys (columns as in ``known``) with the foreign key, the problem and KIP-213's instruction.

    Spark computes a foreign key that consists of ``columns``, unless the rows are on the driver: then Python does.
    ``of_all``: columns that are the same for all rows; Spark adds them, so that they do not go through Python (see
    ``first_load.never_seen``).
    """
    if columns is not None and not known.here:
        extracted = Rows(columns.added_to(known.df.withColumns(dict(of_all or {}))))
    else:
        extracted = known.with_columns(extract, _ADDED)
        extracted = Rows(extracted.df.withColumns(dict(of_all)), extracted.table) if of_all else extracted
    told = instruction(join_type, F.col("old_fk"), F.col("fk"))
    return Rows(extracted.df.withColumn("instruction", told), extracted.table)
