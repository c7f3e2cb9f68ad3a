"""The streams of a resource, one after another, and the stream that Spark's checkpoint continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import BatchId, checkpoints_of
from kaspr_delta.engine.batch.new_stream import NewStream
from kaspr_delta.engine.batch.progress import folded_batches
from kaspr_delta.engine.batch.recovery import Recovery
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.engine.batch.sources import SourceTable
from kaspr_delta.storage.folders import Folder
from kaspr_delta.storage.lazy_session import runs_here
from kaspr_delta.storage.stream_checkpoint import positions_in, remove_unfinished
from kaspr_delta.storage.tables import Commit


@dataclass
class ResourceRun:
    """The runs of a resource: its streams, one after another. ``runner`` runs their batches."""

    runner: BatchRunner
    recovery: Recovery
    # Whether a continuous run runs it in rounds, as on Spark Connect.
    in_rounds: bool = field(default=False, init=False)
    # The stream that was started last. Of the one that ended last: the start in the log then, and its own commits.
    _stream: ContinuedStream | NewStream | None = field(default=None, init=False)
    _ended: tuple[BatchId, Mapping[str, Commit]] | None = field(default=None, init=False)
    # The sources of which the stream that was stopped last has read something.
    _just_read: frozenset[str] = field(default=frozenset(), init=False)

    @property
    def resource(self) -> Resource[Any]:
        return self.runner.resource

    def start(self, spark: SparkSession, every: int | None) -> StreamingQuery | None:
        """Start the stream: until all present rows are processed, or, ``every`` so many milliseconds, until stopped.

        None if no topic matches a pattern, or if a run that ends would process no commit. Raises the errors of
        ``changes``.
        """
        runner = self.runner
        if runner.failure is not None:  # it may have committed a batch without folding it
            runner.failure = None
            self.recovery.recover(spark, folded_batches(runner.delta, spark))
        # The rows of waiting batches belong to the session of the stream before, which a new stream replaces.
        self.fold_pending(spark)
        runner.folding.defers_state = every is not None
        if runner.shipped:
            with runner.lock:
                runner.read_log_end(spark)
        stream: ContinuedStream | NewStream
        if runner.stream_start.tables:
            stream = NewStream.of(runner, spark, None if every is None else self._just_read)
        else:
            stream = ContinuedStream.of(runner, spark)
        self._stream = stream
        if not stream.sources or (every is None and self._has_read_all(spark, stream)):
            return None
        changes = stream.changes(spark)
        if changes is None:
            return None
        remove_unfinished(stream.checkpoint)
        runner.shipped = not runs_here(spark)
        writer = changes.writeStream.foreachBatch(runner.run)
        writer = writer.option("checkpointLocation", stream.checkpoint.for_spark).queryName(str(self.resource.ref))
        if every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every} milliseconds").start()

    def finish(self, spark: SparkSession) -> None:
        """End a stream that has processed everything that was present at its start."""
        self.fold_pending(spark)
        if self._stream is not None:
            self._stream.finish(spark)
            self._ended = self.runner.log.end.start_batch, self._stream.at_start

    def is_over(self, spark: SparkSession) -> bool:
        """Whether a stream that does not end has to be stopped, and the next one to be started."""
        return isinstance(self._stream, NewStream) and self._stream.is_over(spark)

    def stop(self, spark: SparkSession) -> None:
        """Note how far a stream has read that does not end by itself, after it was stopped."""
        if isinstance(self._stream, NewStream):
            self._just_read = self._stream.stop(spark)

    def fold_pending(self, spark: SparkSession) -> None:
        """Fold the batches that wait after a stream."""
        self.runner.fold_pending(spark)

    def _has_read_all(self, spark: SparkSession, stream: ContinuedStream | NewStream) -> bool:
        """Whether all commits at the start of a stream were read, by a stream of this run or by an earlier one.

        Of earlier ones the log alone does not tell: a batch that changes nothing leaves no trace in it, and a large
        commit comes in several batches.
        """
        # A run that ends reads an endpoint once. In a continuous run each round looks for news there.
        tells = stream.at_start or not self.in_rounds
        if tells and self._ended is not None and self._ended[0] == self.runner.log.end.start_batch:
            return stream.at_start == self._ended[1]
        return stream.has_read_all(spark)


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
        return checkpoints_of(runner.delta.namespace, runner.resource.ref) / runner.log.end.start_batch.checkpoint

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

    def changes(self, spark: SparkSession) -> DataFrame:
        """The changes of all sources: Spark's checkpoint knows where they begin."""
        return self.runner.resource.source(spark, self.runner.stream_start)

    def finish(self, spark: SparkSession) -> None:
        """Do nothing: Spark's checkpoint has the end."""
