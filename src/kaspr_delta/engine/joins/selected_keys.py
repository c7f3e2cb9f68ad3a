"""The keys that rows of a table refer to, or by which they are grouped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kaspr_delta.engine.batch.dead_letters import ARROW_PROBLEM
from kaspr_delta.engine.joins.touched import HOW_TO_WRITE_KEYS, why_no_key
from kaspr_delta.engine.streams.selector import Selected, Selector, duplicates, problem
from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.table_text import TableText


@dataclass(frozen=True, slots=True)
class SelectKeys:
    """Adds the key that each row of a table refers to, in a column ``name`` (NULL: none), and ``problem``.

    A function makes it of the row's value and key. Without one it is the row's own key, as a table with ``own`` keys
    spells it. ``checked``: the rows' keys are known to be canonical.
    """

    name: str
    table: TableText
    function: Selector | None
    own: TableText
    checked: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            found = list(map(self._selected, keys, values, _copies(batch)))
            selected = pa.array([one.key for one in found], pa.string())
            problems = pa.array([one.problem for one in found], ARROW_PROBLEM)
            yield batch.append_column(self.name, selected).append_column("problem", problems)

    def _selected(self, key: str | None, value: str | None, copies: int | None) -> Selected:
        if value is None:
            return Selected(None)
        refused = None if self.checked else why_no_key(self.table, key)
        if key is None or refused is not None:
            return Selected(None, problem(str(refused), HOW_TO_WRITE_KEYS, value))
        try:
            row, row_key = self.table.value_object(value), self.table.event_key(key)
            if self.function is None:
                selected, failure = Selected(self.own.key(row_key))
            else:
                selected, failure = self.function(row, row_key, value)
        except SerializationError as error:
            return Selected(None, problem("value cannot be read", str(error), value))
        return Selected(selected, failure or duplicates(copies, value))


def _copies(rows: pa.RecordBatch) -> list[int | None]:
    """How many rows of a table have the key of each row, if that was counted."""
    if "duplicate_count" not in rows.schema.names:
        return [None] * rows.num_rows
    copies: list[int | None] = rows.column("duplicate_count").to_pylist()
    return copies
