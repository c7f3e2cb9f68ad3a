"""Foreign keys that Spark computes, because they are columns of a typed left table, or text made of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kaspr_delta.engine.batch.dead_letters import problem
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.typed_columns import key_text
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.functions.column_paths import Path, Picked, Text
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.layout import PROBLEM


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
        row = self.left.text_form.column(F.col("left"))
        failed = [
            F.when(F.col("left").isNotNull() & nulls, problem(failure["reason"] or "", F.lit(failure["detail"]), row))
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
