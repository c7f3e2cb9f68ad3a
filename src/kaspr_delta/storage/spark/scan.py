"""A scan of a table by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaspr_delta.storage.spark.frames import collected
from kaspr_delta.storage.spark.sql_text import with_values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kaspr_delta.storage.tables import Value


@dataclass(frozen=True, slots=True)
class SparkScan:
    """Implements Scan over a DataFrame."""

    df: DataFrame

    @property
    def reads_files(self) -> bool:
        return False

    def where(self, condition: str, **values: Value) -> SparkScan:
        return SparkScan(self.df.where(with_values(condition, values)))

    def rows(self, columns: Sequence[str], limit: int) -> pa.Table:
        return collected(self.df.select(*columns).limit(limit))

    def count_by(self, columns: Sequence[str]) -> dict[tuple[Any, ...], int]:
        return {tuple(row)[:-1]: row["count"] for row in self.df.groupBy(*columns).count().collect()}

    def aggregate(self, expressions: str, **values: Value) -> tuple[Any, ...]:
        (found,) = self.df.selectExpr(f"struct({with_values(expressions, values)}) AS found").collect()
        return tuple(found["found"])
