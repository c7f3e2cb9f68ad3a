"""A fake Databricks SQL warehouse: a Spark session executes its statements."""

from __future__ import annotations

import base64
import json
import threading
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

from databricks.sdk.service.sql import StatementState
from pyspark.sql import SparkSession


class SqlOnSpark:
    """A fake workspace client. Results have values as text, and the columns in the manifest."""

    def __init__(self, spark: SparkSession) -> None:
        self.statement_execution = self
        self.executed_statements: list[str] = []
        self._spark = spark
        self._lock = threading.Lock()

    def execute_statement(self, statement: str, warehouse_id: str, **_: object) -> object:
        assert warehouse_id == "w1"
        with self._lock:
            self.executed_statements.append(statement)
        try:
            frame = self._spark.sql(statement)
            rows = [[_text(value) for value in row] for row in frame.collect()]
        except Exception as error:  # noqa: BLE001  any error fails the statement
            status = SimpleNamespace(state=StatementState.FAILED, error=SimpleNamespace(message=str(error)))
            return SimpleNamespace(statement_id="s", status=status, result=None, manifest=None)
        columns = [SimpleNamespace(name=one.name, type_text=one.dataType.simpleString()) for one in frame.schema]
        return SimpleNamespace(
            statement_id="s",
            status=SimpleNamespace(state=StatementState.SUCCEEDED),
            manifest=SimpleNamespace(schema=SimpleNamespace(columns=columns)),
            result=SimpleNamespace(data_array=rows, next_chunk_index=None),
        )


def _text(value: Any) -> str | None:
    """A value as text in the form of a statement's result: times are in UTC, with milliseconds."""
    if value is None:
        return None
    match value:
        case bool():
            return str(value).lower()
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime():
            return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        case dict() | list() | tuple():
            return json.dumps(value, default=str)
    return str(value)
