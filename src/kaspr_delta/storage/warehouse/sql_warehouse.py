"""Delta tables of Unity Catalog without Spark: statements that a SQL warehouse executes, through databricks-sdk."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.errors import SetupError
from kaspr_delta.spec.ddl import Column, Type, columns_of
from kaspr_delta.storage.dialect import SPARK
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.namespace import Namespace
from kaspr_delta.storage.page_reads import UnreadableError
from kaspr_delta.storage.spark.sql_text import creation

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.sql import StatementResponse

_MISSING = "TABLE_OR_VIEW_NOT_FOUND"
# The most seconds of a statement after its first 30, the start of a stopped warehouse included.
_PATIENCE = 300.0


# Errors where the files of a version, or its log, are gone.
_GONE = re.compile("FILE_NOT_EXIST|FILE_NOT_FOUND|DELETED_FILE_RETENTION|VERSION_NOT_FOUND|VERSION_NOT_CONTIGUOUS")


class RefusedError(UnreadableError):
    """A SQL warehouse refused a statement: a grant is missing, for example."""

    @property
    def reason(self) -> str:
        return "its files are gone: VACUUM has removed them" if _GONE.search(str(self)) else super().reason


class MissingTableError(RefusedError):
    """A table or view of the statement does not exist."""


@dataclass(frozen=True, slots=True)
class SqlWarehouse:
    """A SQL warehouse, and the namespace of the tables that it queries."""

    client: WorkspaceClient
    warehouse_id: str
    namespace: Namespace

    def rows(self, statement: str) -> Iterator[list[str | None]]:
        """The rows that a statement returns, every value as text. Raises SetupError when it fails."""
        yield from self._rows_of(self.execute(statement))

    def rows_if_there(self, statement: str) -> list[list[str | None]]:
        """The same; no rows where a table of the statement does not exist."""
        try:
            return list(self.rows(statement))
        except MissingTableError:
            return []

    def named_rows(self, statement: str) -> list[dict[str, str | None]]:
        """The same by the names of their columns."""
        try:
            response = self.execute(statement)
        except MissingTableError:
            return []
        names = [column.name for column in _columns_of(response)]
        return [dict(zip(names, row, strict=True)) for row in self._rows_of(response)]

    def columns(self, statement: str) -> tuple[Column, ...]:
        """The columns that a statement returns, with their types."""
        return _columns_of(self.execute(statement))

    def execute(self, statement: str) -> StatementResponse:
        """The response to a statement that has succeeded. Raises SetupError, RefusedError when it fails."""
        from databricks.sdk.errors.base import DatabricksError
        from databricks.sdk.service.sql import StatementState

        try:
            response = self._waited_for(statement)
        except DatabricksError as error:
            msg = f"SQL warehouse {self.warehouse_id} cannot be asked: {error}"
            raise SetupError(msg) from error
        if _state(response) is not StatementState.SUCCEEDED:
            failure = response.status.error if response.status else None
            reason = failure.message if failure else "no reason is given"
            msg = f"SQL warehouse {self.warehouse_id} refuses a statement: {reason}"
            raise MissingTableError(msg) if _MISSING in msg else RefusedError(msg)
        return response

    def _waited_for(self, statement: str) -> StatementResponse:
        from databricks.sdk.service.sql import Disposition, Format, StatementState

        api = self.client.statement_execution
        response = api.execute_statement(
            statement, self.warehouse_id, format=Format.JSON_ARRAY, disposition=Disposition.INLINE, wait_timeout="30s"
        )
        deadline = time.monotonic() + _PATIENCE
        while _state(response) in {StatementState.PENDING, StatementState.RUNNING}:
            if time.monotonic() > deadline:
                api.cancel_execution(response.statement_id or "")
                msg = f"SQL warehouse {self.warehouse_id} does not answer"
                raise SetupError(msg)
            time.sleep(0.5)
            response = api.get_statement(response.statement_id or "")
        return response

    def _rows_of(self, response: StatementResponse) -> Iterator[list[str | None]]:
        api = self.client.statement_execution
        part = response.result
        while part is not None:
            rows: Any = part.data_array or ()  # annotated as text, and None where there is NULL
            yield from rows
            if part.next_chunk_index is None:
                return
            part = api.get_statement_result_chunk_n(response.statement_id or "", part.next_chunk_index)

    def identifier(self, table: str) -> str:
        """A table's name in statements."""
        return self.namespace.identifier(table)

    def insert(self, table: str, columns: str, rows: Sequence[Sequence[Any]], *, overwrite: bool = False) -> None:
        """Append rows, or replace all rows. ``columns`` are those of the layout."""
        types = columns_of(columns)
        verb = "INSERT OVERWRITE" if overwrite else "INSERT INTO"
        names = ", ".join(f"`{column.name}`" for column in types)
        values = ", ".join(
            f"({', '.join(_value(value, str(column.type)) for value, column in zip(row, types, strict=True))})"
            for row in rows
        )
        if values:
            self.execute(f"{verb} {self.identifier(table)} ({names}) VALUES {values}")
        elif overwrite:
            self.execute(f"DELETE FROM {self.identifier(table)}")

    def ensure(self, table: str, layout: Layout) -> None:
        """Create a table unless it exists."""
        if self.version(table) is None:
            self.execute(creation(self.namespace, table, layout, self.namespace.properties_of(layout)))

    def version(self, table: str) -> int | None:
        """The table's newest version; None where there is no table."""
        newest = self.rows_if_there(f"DESCRIBE HISTORY {self.identifier(table)} LIMIT 1")
        return int(newest[0][0] or 0) if newest else None


def binary(data: bytes | None) -> str:
    """Bytes in a statement."""
    return "CAST(NULL AS BINARY)" if data is None else SPARK.binary(data)


def _columns_of(response: StatementResponse) -> tuple[Column, ...]:
    """The columns of a response by its manifest; a type that a manifest cannot tell is text."""
    schema = response.manifest.schema if response.manifest else None
    return tuple(
        Column(column.name or "", _type_of(column.type_text or ""))
        for column in (schema.columns if schema else None) or ()
    )


def _type_of(text: str) -> Type:
    try:
        (column,) = columns_of(f"c {text}")
    except ValueError:
        return Type("STRING")
    return column.type


def _state(response: StatementResponse) -> Any:
    return response.status.state if response.status else None


def _value(value: Any, kind: str) -> str:
    """A value in a statement. NULL is cast, because VALUES of several rows needs its type."""
    match value:
        case None:
            return f"CAST(NULL AS {kind})"
        case bytes():
            return binary(value)
        case list():
            pairs = (f"named_struct('key', {SPARK.text(h['key'])}, 'value', {binary(h['value'])})" for h in value)
            return f"array({', '.join(pairs)})"
    return SPARK.value(value)
