"""Delta tables that other programs write, in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class TableOfOthers:
    """A table in a folder. In statements ``{}`` stands for it."""

    spark: SparkSession
    folder: Path

    def __str__(self) -> str:
        return f"delta.`{self.folder}`"

    def run(self, statement: str) -> None:
        self.spark.sql(statement.format(self))

    def alter(self, change: str) -> None:
        self.run(f"ALTER TABLE {{}} {change}")

    def make(self, columns: str, *properties: str, feed: bool = True) -> None:
        """Create the table, with its change feed on or off and with further properties, unless it is there."""
        listed = ", ".join((f"delta.enableChangeDataFeed = {str(feed).lower()}", *properties))
        self.run(f"CREATE TABLE IF NOT EXISTS {{}} ({columns}) USING DELTA TBLPROPERTIES ({listed})")
