"""The stream that Spark's checkpoint continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import checkpoints_of
from kaspr_delta.engine.batch.recovery import cannot_go_on
from kaspr_delta.engine.batch.sources import SourceTable
from kaspr_delta.errors import SparkNeededError
from kaspr_delta.storage.folders import Folder
from kaspr_delta.storage.gone import TABLE_REPLACED
from kaspr_delta.storage.stream_checkpoint import positions_in
from kaspr_delta.storage.tables import Commit


@dataclass(frozen=True)
class ContinuedStream:
    """A stream that Spark's checkpoint continues: in a folder, or from an endpoint.

    ``at_start`` has by table its newest commit when the stream was made.
    """

    runner: BatchRunner
    sources: Mapping[str, SourceTable]
    at_start: Mapping[str, Commit]

    @classmethod
    def of(cls, runner: BatchRunner, spark: SparkSession) -> ContinuedStream:
        """The next stream of a resource."""
        sources = runner.sources(spark)
        tables = [source.table for source in sources.values() if source.table]
        return cls(runner, sources, {table: runner.delta.newest(spark, table) for table in tables})

    @property
    def checkpoint(self) -> Folder:
        """The folder of Spark's checkpoint, which a stream keeps when a migration writes a new start."""
        runner = self.runner
        name = runner.stream_start.stream or runner.log.end.start_batch.checkpoint
        return checkpoints_of(runner.delta.namespace, runner.resource.ref) / name

    def has_read_all(self, spark: SparkSession) -> bool:
        """Whether the stream has read its tables as they are; False if one source is an endpoint: it may have news."""
        delta, tables = self.runner.delta, [self.sources[name].table for name in sorted(self.sources)]
        if not all(tables):
            return False
        versions, positions = [self.at_start[table].version for table in tables], positions_in(self.checkpoint)
        return len(positions) == len(tables) and all(
            position is not None
            and position.has_read(version, delta.change_file_count(table, version))
            and position.table_id == delta.table_id(spark, table)
            for table, version, position in zip(tables, versions, positions, strict=True)
        )

    def read_by_spark(self, spark: SparkSession) -> dict[str, int]:
        """How far Spark's checkpoint has surely read each source; empty without one.

        Raises SparkNeededError if it was of another table, for Spark to tell.
        """
        found = dict[str, int]()
        for name, position in zip(sorted(self.sources), positions_in(self.checkpoint), strict=False):
            if position is not None:
                source = self.sources[name]
                if position.table_id != self.runner.delta.table_id(spark, source.table):
                    raise SparkNeededError(f"a table that {self.runner.resource.ref} reads was replaced")
                files = self.runner.delta.change_file_count(source.table, position.version)
                found[name] = source.upto(position.last_read(files))
        return found

    def check_tables(self, spark: SparkSession) -> None:
        """Raise the error of ``cannot_go_on`` if a table was replaced since the last batch without a stream."""
        for name, known in self.runner.stream_start.ids.items():
            if name in self.sources and known != self.runner.delta.table_id(spark, self.sources[name].table):
                raise cannot_go_on(self.runner.resource, TABLE_REPLACED)

    def changes(self, spark: SparkSession) -> DataFrame:
        """The changes of all sources: Spark's checkpoint knows where they begin, and of which tables they are."""
        if not positions_in(self.checkpoint):
            self.check_tables(spark)
        return self.runner.resource.source(spark, self.runner.stream_start)

    def finish(self, spark: SparkSession) -> None:
        """Do nothing: Spark's checkpoint has the end."""
