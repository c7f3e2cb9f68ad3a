"""The foreign keys of left rows: by the author's extractor, or computed by Spark if they are made of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import and_
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.dead_letters import problem_column
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.typed_columns import key_text
from kaspr_delta.engine.streams.selector import ARROW_PROBLEM, Problem, Selector, problem
from kaspr_delta.errors import SerializationError
from kaspr_delta.functions.column_paths import Path, Picked, Text
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_values import from_columns, written
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.arrow_types import arrow_schema, batch_of
from kaspr_delta.storage.layout import PROBLEM

_EXTRACTED = arrow_schema(f"readable BOOLEAN, fk STRING, problem {PROBLEM}")


class Extracted(NamedTuple):
    """The result of the extractor for a left row. A row that is not ``readable`` counts as deleted."""

    readable: bool
    fk: str | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class ExtractForeignKeys:
    """Adds ``fk`` and ``problem`` to rows with columns key, left, left_hash. ``row_type`` is None for text.

    Rows that are ``unchanged`` (a column of ``send``, which a first load lacks) are passed over. A value that the
    table's serializer cannot read becomes NULL, as if it were deleted, and has a problem.
    """

    extractor: Selector
    left: TableText
    row_type: Type | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            asked = batch.column("left").is_valid()
            if "unchanged" in batch.schema.names:
                # One right row may trigger very many left rows: those that are unchanged do not go through Python.
                asked = pc.and_(asked, pc.invert(batch.column("unchanged")))
            keys, rows = (batch.column(name).filter(asked).to_pylist() for name in ("key", "left"))
            found = self.together(keys, rows)
            if found is None:
                found = batch_of(list(map(self.extracted, keys, rows)), _EXTRACTED)
            found = found.take(_indices_of(asked))
            given = batch
            for name in ("left", "left_hash") if self.row_type is None else ():
                gone = pc.fill_null(pc.invert(found["readable"]), fill_value=False)
                # An array of NULLs: with the constant NULL, Arrow 21 and older return other memory for slices of texts.
                column = pc.if_else(gone, pa.nulls(batch.num_rows, pa.string()), batch.column(name))
                given = given.set_column(batch.schema.get_field_index(name), name, column)
            yield given.append_column("fk", found["fk"]).append_column("problem", found["problem"])

    def together(self, keys: list[str], rows: list[Any]) -> pa.RecordBatch | None:
        """The same as ``extracted`` for all rows at once, which is faster; None if any of them fails."""
        fks = self.extractor.keys_of(map(self._value, rows), map(self.left.event_key, keys))
        if fks is None:
            return None
        readable, problems = pa.repeat(pa.scalar(value=True), len(rows)), pa.nulls(len(rows), ARROW_PROBLEM)
        return pa.RecordBatch.from_arrays([readable, pa.array(fks, pa.string()), problems], schema=_EXTRACTED)

    def extracted(self, key: str, left: Any) -> Extracted:
        try:
            value, left_key = self._value(left), self.left.event_key(key)
        except SerializationError as error:
            return Extracted(readable=False, problem=problem("value cannot be read", str(error), self._text(left)))
        fk, failure = self.extractor(value, left_key, None)
        if failure is not None:
            failure["value"] = self._text(left)
        return Extracted(readable=True, fk=fk, problem=failure)

    def _value(self, left: Any) -> Any:
        return self.left.value_object(left) if self.row_type is None else from_columns(self.row_type, left)

    def _text(self, left: Any) -> str:
        return str(left) if self.row_type is None else value_text(written(self.row_type, self._value(left), "the row"))


def _indices_of(those: pa.BooleanArray) -> pa.Array:
    """For each selected row its index among the selected rows; NULL for other rows."""
    return pc.if_else(those, pc.subtract(pc.cumulative_sum(those.cast(pa.int64())), 1), None)


@dataclass(frozen=True, slots=True)
class ForeignKeyColumns:
    """Adds the same columns as ``ExtractForeignKeys``, in Spark. ``types``: the types of the parts of the key."""

    picked: Picked
    types: Sequence[Type]
    left: KeyedTable
    extractor: Selector

    def added_to(self, context: DataFrame) -> DataFrame:
        """Return left keys (columns as in ``left_context``) with ``fk`` and ``problem``."""
        columns = [_text(part) if isinstance(part, Text) else _column(part) for part in self.picked.parts]
        row, there = self.left.text_form.column(F.col("left")), F.col("left").isNotNull()
        failed = [
            F.when(there & nulls, problem_column(failure["reason"] or "", F.lit(failure["detail"]), row))
            for nulls, failure in self._failures()
        ]
        none = F.lit(None).cast(PROBLEM)
        return context.withColumns({"fk": key_text(columns, self.types), "problem": F.coalesce(*failed, none)})

    def _failures(self) -> Iterator[tuple[Column, Mapping[str, str | None]]]:
        """Each combination of nulls with which the function fails, as a condition, and its failure.

        Only columns that must be text are combined. The function itself is called, to learn how it fails.
        """
        for nulls in product([True, False], repeat=len(self.picked.strict)):
            if any(nulls):
                given = dict(zip(self.picked.strict, nulls, strict=True))
                _, failure = self.extractor(self._row(given), None, None)
                if failure is not None:
                    nulls_are = [_column(path).isNull() == F.lit(null) for path, null in given.items()]
                    yield reduce(and_, nulls_are), failure

    def _row(self, nulls: Mapping[Path, bool]) -> dict[str, Any]:
        """A row with an empty text in those of these columns that are not null, and with null in all others."""
        names = [column.name for column in self.left.plan.row_type.fields] if self.left.plan.row_type else []
        return {name: "" if nulls.get((name,)) is False else None for name in names}


def _column(path: Path) -> Column:
    return reduce(lambda column, name: column[name], path, F.col("left"))


def _text(text: Text) -> Column:
    """NULL if a column that must be text is NULL. NULL in any other column is the text ``None``, as in Python."""
    pieces = [
        F.lit(piece)
        if isinstance(piece, str)
        else _column(piece.path)
        if piece.strict
        else F.coalesce(_column(piece.path).cast("string"), F.lit("None"))
        for piece in text.pieces
    ]
    # A missing row has no key.
    return F.when(F.col("left").isNotNull(), F.concat(*pieces))
