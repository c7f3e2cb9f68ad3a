"""What steps are done with: Spark, an application and the tables of others. It lives in the child."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaspr_delta import Application
from tests.chaos.recipe import Recipe
from tests.chaos.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VACUUM_ANYTHING = "spark.databricks.delta.retentionDurationCheck.enabled"


class WaitsError(Exception):
    """A resource does not run, though all it needs is there."""


class World:
    """One application on one warehouse, and who else is there."""

    def __init__(self, spark: SparkSession, recipe: Recipe, warehouse: Path) -> None:
        self.spark, self.recipe, self.warehouse = spark, recipe, warehouse
        # The oldest version of each table whose files are all there.
        self._whole: dict[str, int] = {}
        self._columns_differ = False
        for source in recipe.sources:
            if source.is_foreign and not source.folder(warehouse).exists():
                columns = ", ".join(f"{name} {kind}" for name, kind in source.types.items())
                feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
                self.sql(f"CREATE TABLE {self.table(source)} ({columns}) USING DELTA {feed}")
        self.open()

    def open(self) -> None:
        """Open the application anew. Raises WaitsError."""
        manifests = self.warehouse.parent / "chaos.yaml"
        manifests.parent.mkdir(parents=True, exist_ok=True)
        manifests.write_text(self.recipe.manifests(self.warehouse))
        self.app = Application.open(manifests, warehouse=self.warehouse, spark=self.spark)
        self._columns_differ = False
        if self.app.plan.waiting:
            raise WaitsError("; ".join(f"{ref}: {reason}" for ref, reason in self.app.plan.waiting))

    def columns_may_differ(self) -> None:
        """Before the next run the application is opened anew: only then are columns looked at."""
        self._columns_differ = True

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, *only: str) -> None:
        """Run until quiet, everything or some shapes."""
        if self._columns_differ:
            self.open()
        self.app.run(only=[self._ref(name) for name in only])

    def rebuild(self, name: str) -> None:
        """Make the state of a shape anew."""
        self.app.rebuild(self._ref(name))

    def _ref(self, name: str) -> str:
        return self.recipe.inputs.shapes[name].ref

    # -- tables, as others see them -----------------------------------------------------------------------------------

    def table(self, source: Source) -> str:
        """The table in SQL."""
        return f"delta.`{source.folder(self.warehouse)}`"

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Say it; the answer."""
        return [row.asDict(recursive=True) for row in self.spark.sql(statement).collect()]

    def rows(self, folder: Path) -> list[dict[str, Any]]:
        """All rows of a table."""
        return [row.asDict(recursive=True) for row in self.spark.read.format("delta").load(str(folder)).collect()]

    def version(self, source: Source) -> int:
        """The newest version."""
        (newest,) = self.sql(f"DESCRIBE HISTORY {self.table(source)} LIMIT 1")
        return int(newest["version"])

    def oldest(self, source: Source) -> int:
        """The oldest version that can be restored."""
        return self._whole.get(source.name, 0)

    def vacuum(self, source: Source) -> None:
        """Remove all files that the newest version does not need."""
        with self._set(_VACUUM_ANYTHING, "false"):
            self.sql(f"VACUUM {self.table(source)} RETAIN 0 HOURS")
        self._whole[source.name] = self.version(source)

    def has_feature(self, source: Source, feature: str) -> bool:
        """Whether the table's protocol names a feature."""
        (detail,) = self.sql(f"DESCRIBE DETAIL {self.table(source)}")
        return feature in (detail["tableFeatures"] or ())

    def is_clustered(self, source: Source) -> bool:
        """Whether its files are laid out by columns."""
        return self.has_feature(source, "clustering")

    @contextmanager
    def _set(self, name: str, value: str) -> Iterator[None]:
        self.spark.conf.set(name, value)
        try:
            yield
        finally:
            self.spark.conf.unset(name)
