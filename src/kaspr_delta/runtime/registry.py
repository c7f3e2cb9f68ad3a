"""The manifests applied to a warehouse: kept in the application's schema, so that later commands know them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaspr_delta.spec.loader import LoadedManifest, LoadedManifests, load_text
from kaspr_delta.storage.delta import Delta
from kaspr_delta.storage.layout import RESOURCES, SYSTEM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Registry:
    """The applied documents of one application."""

    delta: Delta

    def apply(self, spark: SparkSession, manifests: Sequence[LoadedManifest]) -> None:
        """Make these documents the application's; nothing is written when they already are."""
        documents = [(m.location.file, m.location.line, m.text) for m in manifests]
        if self._documents(spark) == documents:
            return
        rows = spark.createDataFrame(
            [(position, *document) for position, document in enumerate(documents)], SYSTEM[RESOURCES].columns
        )
        self.delta.replace_all(rows.coalesce(1), RESOURCES)

    def load(self, spark: SparkSession) -> LoadedManifests:
        """The applied documents, with the places in the files from which they came."""
        loaded = [load_text(text, file, line) for file, line, text in self._documents(spark)]
        return LoadedManifests(
            manifests=tuple(manifest for one in loaded for manifest in one.manifests),
            findings=tuple(finding for one in loaded for finding in one.findings),
        )

    def _documents(self, spark: SparkSession) -> list[tuple[str, int, str]]:
        rows = self.delta.read(spark, RESOURCES).orderBy("position").collect()
        return [(row["file"], row["line"], row["document"]) for row in rows]
