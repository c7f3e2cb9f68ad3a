"""The storage of the web side over Unity Catalog: every read is a statement on a SQL warehouse."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.control.dead_letters import DeadLetters
from kaspr_delta.control.figures import Figures
from kaspr_delta.control.store import ByStatements
from kaspr_delta.control.totals import Totals, sums_by_resource
from kaspr_delta.engine.agent.table_state import Cell, RowKey
from kaspr_delta.engine.rows.row_texts import (
    KeysAndValues,
    ResultRows,
    Row,
    TypedRows,
    best_of,
    row_texts,
)
from kaspr_delta.engine.streams.effect import RECORD
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.serde.typed_values import to_columns
from kaspr_delta.spec.ddl import Column, columns_of, quoted
from kaspr_delta.storage.dialect import SPARK
from kaspr_delta.storage.layout import TOPIC, WRITTEN_AT, time_column
from kaspr_delta.storage.spark.sql_text import struct_of
from kaspr_delta.storage.warehouse.reads import WarehousePageReads, WarehouseSystemTables, json_of, row_of
from kaspr_delta.storage.warehouse.sql_warehouse import SqlWarehouse
from kaspr_delta.web.access import Visitor

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient


@dataclass(frozen=True, slots=True)
class WarehouseReader:
    """Reads a table, one statement a call."""

    warehouse: SqlWarehouse
    plan: TablePlan

    def fetch(self, row_keys: Collection[RowKey]) -> dict[RowKey, str]:
        """The values of the row keys that have a row."""
        keys = sorted({row_key.key if isinstance(row_key, Cell) else row_key for row_key in row_keys})
        if not keys:
            return {}
        found = self._rows(row_texts(self.plan).condition(keys, SPARK))
        return {row_key: value for row_key, value in found.items() if row_key in row_keys}

    def scan(self, start: int | None) -> dict[RowKey, str]:
        """All rows, or those of the window that begins at ``start``."""
        return self._rows("true" if start is None else f"`window_start` = timestamp_millis({start})")

    def _rows(self, condition: str) -> dict[RowKey, str]:
        texts = row_texts(self.plan)
        rows = self._selected(texts, condition)
        best = best_of(rows, texts.rank)
        return {Cell(*row_key) if self.plan.window else row_key[0]: value for row_key, value in best.items()}

    def _selected(self, texts: KeysAndValues | TypedRows | ResultRows, condition: str) -> Iterator[Row]:
        match texts:
            case TypedRows():
                return self._typed(texts, condition)
            case ResultRows():
                return self._of_result(texts, condition)
            case _:
                return self._keys_and_values(condition)

    def _of_result(self, result: ResultRows, condition: str) -> Iterator[Row]:
        types, columns, time = result.types, json_of(struct_of(result.types)), time_column(self.plan)
        statement = (
            f"SELECT `key`, unix_micros(`{time}`), {columns} FROM {self.warehouse.identifier(self.plan.state)}"  # noqa: S608
            f" WHERE `key` IS NOT NULL AND {condition}"
        )
        for key, at, text in self.warehouse.rows(statement):
            row = row_of(types, text or "{}")
            (value,) = result.values({name: [to_columns(kind, row[name])] for name, kind in types.items()})
            yield Row(key or "", 0, None if at is None else int(at), value)

    def _keys_and_values(self, condition: str) -> Iterator[Row]:
        window = "unix_millis(`window_start`)" if self.plan.window else "0"
        statement = (
            f"SELECT {self._text('key')}, {window}, unix_micros(`timestamp`), {self._text('value')}"  # noqa: S608
            f" FROM {self.warehouse.identifier(self.plan.state)}"
            f" WHERE `key` IS NOT NULL AND `value` IS NOT NULL AND {condition}"
        )
        for key, start, at, value in self.warehouse.rows(statement):
            if not (self.plan.serializers.value == "json" and value == "null"):
                yield Row(key or "", int(start or 0), None if at is None else int(at), value)

    def _typed(self, typed: TypedRows, condition: str) -> Iterator[Row]:
        written = "NULL" if self.plan.is_foreign else f"unix_micros(`{WRITTEN_AT}`)"
        row = json_of(struct_of(column.name for column in typed.plan.columns))
        statement = f"SELECT {written}, {row} FROM {self.warehouse.identifier(self.plan.state)} WHERE {condition}"  # noqa: S608
        for at, text in self.warehouse.rows(statement):
            key, value = typed.texts_of(typed.text.value_object(text or ""))
            yield Row(key, 0, None if at is None else int(at), value)

    def _text(self, column: str) -> str:
        is_raw = getattr(self.plan.serializers, column) == "raw"
        # Spark breaks base64 into lines: join them (see engine.rows.value_functions).
        return f"replace(base64(`{column}`), char(13) || char(10), '')" if is_raw else f"`{column}`"


@dataclass
class WarehouseStore(ByStatements):
    """The tables of one application in Unity Catalog. Lags are not known.

    Pages are read with the permissions of a visitor who has a token and for whom ``client_of`` makes a client. The
    client is not kept after the answer.
    """

    warehouse: SqlWarehouse
    client_of: Callable[[str], WorkspaceClient] | None = None
    # Seconds. Every look at the registry wakes the warehouse.
    look: float = 15.0
    system: WarehouseSystemTables = field(init=False)
    tables: WarehousePageReads = field(init=False)

    def __post_init__(self) -> None:
        self.system = WarehouseSystemTables(self.warehouse)
        self.tables = WarehousePageReads(self.warehouse)

    @property
    def ready(self) -> bool:
        return True

    def reader(self, plan: TablePlan) -> WarehouseReader:
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

    def letters(self, plan: Plan) -> DeadLetters:
        return DeadLetters(self.system, plan)

    def figures(self, plan: Plan, only: ResourceRef | None = None) -> Figures:
        query = self.system.query
        # The page of one resource shows no counters: that statement is spared.
        totals = self.done if only is None else lambda: Totals(sums_by_resource(query))
        return Figures.of(plan, only, self.tables, totals, query)

    def lags(self, plan: Plan) -> Mapping[ResourceRef, Mapping[str, int] | str]:  # noqa: ARG002
        return {}

    def seen_by(self, visitor: Visitor) -> WarehouseStore:
        if self.client_of is None or not visitor.token:
            return self
        return WarehouseStore(replace(self.warehouse, client=self.client_of(visitor.token)))

    def close(self) -> None:
        """Nothing to release."""


def client_of_visitor(host: str) -> Callable[[str], WorkspaceClient]:
    """A function that makes a workspace client for a visitor's token, whatever credentials the environment has."""
    from databricks.sdk import WorkspaceClient

    return lambda token: WorkspaceClient(host=host, token=token, auth_type="pat")
