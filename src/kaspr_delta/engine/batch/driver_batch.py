"""A batch without a stream, and so without Spark: small changes of tables in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.engine.batch.continued_stream import ContinuedStream
from kaspr_delta.engine.batch.recovery import ids_of_sources
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.errors import SparkNeededError


@dataclass(frozen=True)
class DriverBatch:
    """The next batch without a stream: all that is unread, on the driver.

    It begins where the last stream, or the last batch without one, has ended: ``positions`` by source.
    """

    stream: ContinuedStream
    positions: Mapping[str, int]

    @classmethod
    def of(cls, runner: BatchRunner, spark: SparkSession) -> DriverBatch:
        """From the sources as they are now. Raises SparkNeededError, and the error of ``cannot_go_on``."""
        stream = ContinuedStream.of(runner, spark)
        if not stream.sources or not all(source.table for source in stream.sources.values()):
            raise SparkNeededError(f"{runner.resource.ref} reads an endpoint")
        start = runner.stream_start
        stream.check_tables(spark)
        reached = runner.resource.reached(runner.log.end.metadata.state)
        read = stream.read_by_spark(spark)
        positions = {name: max(at, reached.get(name, at), read.get(name, at)) for name, at in start.positions.items()}
        return cls(stream, positions)

    @property
    def has_read_all(self) -> bool:
        """Whether the sources were read as they are."""
        newest = self._newest
        return all(at >= newest[name] for name, at in self.positions.items())

    def changes(self, spark: SparkSession) -> Rows:
        """The changes of the sources. Raises SparkNeededError."""
        resource = self.stream.runner.resource
        found = resource.arrived(spark, self.positions, self._newest)
        if found is None:
            raise SparkNeededError(f"only Spark reads or processes what {resource.ref} has to read")
        return found

    def end(self, spark: SparkSession) -> Start:
        """The start of the next stream, or batch, after what is there."""
        runner = self.stream.runner
        start = runner.stream_start
        # Known ids were compared with the tables.
        return replace(start.at(self._newest), ids=start.ids or ids_of_sources(runner, spark))

    @property
    def _newest(self) -> dict[str, int]:
        """The positions at which the sources are read as they are."""
        sources, newest = self.stream.sources, self.stream.at_start
        return {name: sources[name].upto(newest[sources[name].table].version) for name in self.positions}
