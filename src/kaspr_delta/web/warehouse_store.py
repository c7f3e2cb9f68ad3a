"""The storage of the web side over Unity Catalog: every read is a statement on a SQL warehouse."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from kaspr_delta.control.totals import Totals, totals_by_spark
from kaspr_delta.engine.agent.table_state import Cell
from kaspr_delta.engine.streams.effect import RECORD
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.spec.ddl import Column, columns_of, quoted
from kaspr_delta.storage.layout import TOPIC, WRITTEN_AT
from kaspr_delta.storage.spark.sql_text import literal, struct_of
from kaspr_delta.storage.warehouse.json_rows import json_of
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse, WarehouseSystemTables, binary
from kaspr_delta.web.sorted_run import Row, RowKey, best_of
from kaspr_delta.web.typed_rows import FOUND_BY_TEXT, TypedRows

# delta-rs does not find DECIMAL keys by text: it skips files by statistics in floating point.
_FOUND_BY_TEXT = FOUND_BY_TEXT | {"DECIMAL"}


@dataclass(frozen=True, slots=True)
class WarehouseReader:
    """Reads a table with keys and values, one statement a call."""

    warehouse: SqlWarehouse
    plan: TablePlan

    def fetch(self, row_keys: Collection[RowKey]) -> dict[RowKey, str]:
        """The values of the row keys that have a row."""
        keys = {row_key.key if isinstance(row_key, Cell) else row_key for row_key in row_keys}
        if not keys:
            return {}
        found = self._rows(f"`key` IN ({', '.join(map(self._literal, sorted(keys)))})")
        wanted = set(row_keys)
        return {row_key: value for row_key, value in found.items() if row_key in wanted}

    def scan(self, start: int | None) -> dict[RowKey, str]:
        """All rows, or those of the window that begins at ``start``."""
        return self._rows("true" if start is None else f"`window_start` = timestamp_millis({start})")

    def _rows(self, condition: str) -> dict[RowKey, str]:
        window = "unix_millis(`window_start`)" if self.plan.window else "0"
        statement = (
            f"SELECT {self._text('key')}, {window}, unix_micros(`timestamp`), {self._text('value')}"  # noqa: S608
            f" FROM {self.warehouse.identifier(self.plan.state)}"
            f" WHERE `key` IS NOT NULL AND `value` IS NOT NULL AND {condition}"
        )
        rows = (
            Row(key or "", int(start or 0), None if at is None else int(at), value)
            for key, start, at, value in self.warehouse.rows(statement)
        )
        json_values = self.plan.serializers.value == "json"
        best = best_of(row for row in rows if not (json_values and row.value == "null"))
        found = {row_key: row.value for row_key, row in best.items() if row.value is not None}
        return {Cell(*row_key) if self.plan.window else row_key[0]: value for row_key, value in found.items()}

    def _text(self, column: str) -> str:
        is_raw = getattr(self.plan.serializers, column) == "raw"
        # Spark breaks base64 into lines: join them (see engine.rows.value_functions).
        return f"replace(base64(`{column}`), char(13) || char(10), '')" if is_raw else f"`{column}`"

    def _literal(self, key: str) -> str:
        return binary(base64.b64decode(key)) if self.plan.serializers.key == "raw" else literal(key)


@dataclass(frozen=True, slots=True)
class TypedWarehouseReader:
    """Reads a typed table, one statement a call."""

    warehouse: SqlWarehouse
    plan: TablePlan
    typed: TypedRows

    def fetch(self, row_keys: Collection[RowKey]) -> dict[RowKey, str]:
        """The values of the row keys that have a row."""
        keys = sorted(str(row_key) for row_key in row_keys)
        if not keys:
            return {}
        found = self._rows(self.typed.condition(keys, literal, _FOUND_BY_TEXT))
        return {row_key: value for row_key, value in found.items() if row_key in row_keys}

    def scan(self, start: int | None) -> dict[RowKey, str]:  # noqa: ARG002  it has no windows
        """All rows."""
        return self._rows("true")

    def _rows(self, condition: str) -> dict[RowKey, str]:
        written = "NULL" if self.plan.is_foreign else f"unix_micros(`{WRITTEN_AT}`)"
        row = json_of(struct_of(column.name for column in self.typed.plan.columns))
        statement = f"SELECT {written}, {row} FROM {self.warehouse.identifier(self.plan.state)} WHERE {condition}"  # noqa: S608
        rows = (
            Row(key, 0, None if at is None else int(at), value)
            for at, json in self.warehouse.rows(statement)
            for key, value in [self.typed.texts_of(self.typed.text.value_object(json or ""))]
        )
        best = best_of((row for row in rows if row.value is not None), self.typed.rank)
        return {key: row.value for (key, _), row in best.items() if row.value is not None}


@dataclass
class WarehouseStore:
    """The tables of one application in Unity Catalog."""

    warehouse: SqlWarehouse
    # Seconds. Every look at the registry wakes the warehouse.
    look: float = 15.0
    system: WarehouseSystemTables = field(init=False)

    def __post_init__(self) -> None:
        self.system = WarehouseSystemTables(self.warehouse)

    @property
    def ready(self) -> bool:
        return True

    def reader(self, plan: TablePlan) -> WarehouseReader | TypedWarehouseReader:
        if plan.typed is not None:
            return TypedWarehouseReader(self.warehouse, plan, TypedRows.of(plan))
        return WarehouseReader(self.warehouse, plan)

    def columns(self, table: str) -> tuple[Column, ...] | str:
        try:
            described = list(self.warehouse.rows(f"DESCRIBE TABLE {self.warehouse.identifier(table)}"))
        except SetupError as error:
            return f"'{table}', which it stands for, cannot be read: {error}"
        # The columns end before a row without a name, or with a name that starts with #.
        columns = itertools.takewhile(lambda row: row[0] and not row[0].startswith("#"), described)
        return columns_of(", ".join(f"{quoted(name or '')} {kind}" for name, kind, *_ in columns))

    def has(self, table: str) -> bool:
        return self.warehouse.version(table) is not None

    def append(self, topic: str, records: pa.Table) -> None:
        self.warehouse.ensure(topic, TOPIC)
        columns = [records[name].to_pylist() for name in RECORD]
        self.warehouse.insert(topic, TOPIC.columns, list(zip(*columns, strict=True)))

    def count(self, table: str) -> int:
        ((count,),) = self.warehouse.rows(f"SELECT count(*) FROM {self.warehouse.identifier(table)}")  # noqa: S608
        return int(count or 0)

    def done(self) -> Totals:
        return totals_by_spark(self.system.query)

    def rebuilds(self, plan: Plan) -> Mapping[ResourceRef, str]:  # noqa: ARG002  a statement for each log: too slow
        return {}

    def close(self) -> None:
        """Nothing to release."""
