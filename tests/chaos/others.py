"""Delta tables as other programs use them: with Spark and Delta, without this package."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VACUUM_ANYTHING = "spark.databricks.delta.retentionDurationCheck.enabled"


class OtherUser:
    """Other programs that use the tables of a warehouse."""

    def __init__(self, spark: SparkSession, warehouse: Path) -> None:
        self.spark, self.warehouse = spark, warehouse

    def table(self, source: Source) -> str:
        """The name of the table in SQL."""
        return f"delta.`{source.folder(self.warehouse)}`"

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement. The rows of its result."""
        return [row.asDict(recursive=True) for row in self.spark.sql(statement).collect()]

    def rows(self, folder: Path) -> list[dict[str, Any]]:
        """All rows of a table."""
        rows: list[dict[str, Any]] = self.spark.read.format("delta").load(str(folder)).toArrow().to_pylist()
        return rows

    def make(self, source: Source) -> None:
        """Create a table, unless its folder exists."""
        if not source.folder(self.warehouse).exists():
            columns = ", ".join(f"{name} {kind}" for name, kind in source.types.items())
            feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            self.sql(f"CREATE TABLE {self.table(source)} ({columns}) USING DELTA {feed}")

    def version(self, source: Source) -> int:
        """The newest version."""
        (newest,) = self.sql(f"DESCRIBE HISTORY {self.table(source)} LIMIT 1")
        return int(newest["version"])

    def oldest(self, source: Source) -> int:
        """The oldest version that may be restored: the one after the last vacuum or change of columns."""
        oldest: int = self.saved_notes.get(source.name, 0)
        return oldest

    def vacuum(self, source: Source) -> None:
        """Remove all files that the newest version does not need."""
        with self._set(_VACUUM_ANYTHING, "false"):
            self.sql(f"VACUUM {self.table(source)} RETAIN 0 HOURS")
        self.note(source.name, self.version(source))

    def has_feature(self, source: Source, feature: str) -> bool:
        """Whether the table's protocol names a feature."""
        (detail,) = self.sql(f"DESCRIBE DETAIL {self.table(source)}")
        return feature in (detail["tableFeatures"] or ())

    @contextlib.contextmanager
    def _set(self, name: str, value: str) -> Iterator[None]:
        self.spark.conf.set(name, value)
        try:
            yield
        finally:
            self.spark.conf.unset(name)

    # -- notes for the next process -----------------------------------------------------------------------------------

    def note(self, name: str, value: float) -> None:
        """Write a note to a file, for the processes after this one."""
        self._notebook.write_text(json.dumps(self.saved_notes | {name: value}))

    @property
    def saved_notes(self) -> dict[str, Any]:
        """All notes."""
        saved_notes: dict[str, Any] = json.loads(self._notebook.read_text()) if self._notebook.exists() else {}
        return saved_notes

    @property
    def _notebook(self) -> Path:
        return self.warehouse.parent / "notes.json"
