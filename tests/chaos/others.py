"""Tables as others see them, who know Spark and Delta but not this package."""

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


class Others:
    """Whoever else uses the tables of a warehouse."""

    def __init__(self, spark: SparkSession, warehouse: Path) -> None:
        self.spark, self.warehouse = spark, warehouse

    def table(self, source: Source) -> str:
        """The table in SQL."""
        return f"delta.`{source.folder(self.warehouse)}`"

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Say it; the answer."""
        return [row.asDict(recursive=True) for row in self.spark.sql(statement).collect()]

    def rows(self, folder: Path) -> list[dict[str, Any]]:
        """All rows of a table."""
        rows: list[dict[str, Any]] = self.spark.read.format("delta").load(str(folder)).toArrow().to_pylist()
        return rows

    def make(self, source: Source) -> None:
        """Make a table, unless it is there."""
        if not source.folder(self.warehouse).exists():
            columns = ", ".join(f"{name} {kind}" for name, kind in source.types.items())
            feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            self.sql(f"CREATE TABLE {self.table(source)} ({columns}) USING DELTA {feed}")

    def version(self, source: Source) -> int:
        """The newest version."""
        (newest,) = self.sql(f"DESCRIBE HISTORY {self.table(source)} LIMIT 1")
        return int(newest["version"])

    def oldest(self, source: Source) -> int:
        """The oldest version that may be restored."""
        oldest: int = self.noted.get(source.name, 0)
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

    # -- what the next process has to know ----------------------------------------------------------------------------

    def note(self, name: str, value: float) -> None:
        """Write something down that outlives this process."""
        self._notebook.write_text(json.dumps(self.noted | {name: value}))

    @property
    def noted(self) -> dict[str, Any]:
        """What was written down."""
        noted: dict[str, Any] = json.loads(self._notebook.read_text()) if self._notebook.exists() else {}
        return noted

    @property
    def _notebook(self) -> Path:
        return self.warehouse.parent / "notes.json"
