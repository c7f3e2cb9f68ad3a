"""The streams of a resource, one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import BatchId
from kaspr_delta.engine.batch.continued_stream import ContinuedStream
from kaspr_delta.engine.batch.driver_batch import DriverBatch
from kaspr_delta.engine.batch.new_stream import NewStream
from kaspr_delta.engine.batch.progress import folded_batches
from kaspr_delta.engine.batch.recovery import Recovery
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.storage.folders import discard
from kaspr_delta.storage.lazy_session import runs_here
from kaspr_delta.storage.stream_checkpoint import remove_unfinished
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

    def process_here(self, spark: SparkSession) -> int:
        """Process what is there in one batch on the driver, without a stream. Returns the number of rows.

        ``spark`` refuses its use. Raises SparkNeededError, before the first function of the batch is called, where only
        Spark can read or process it, and SetupError or RebuildNeededError if a table was replaced.
        """
        batch = DriverBatch.of(self.runner, spark)
        if batch.has_read_all:
            return 0
        changes, before = batch.changes(spark), batch.stream.checkpoint
        self.runner.process_here(changes, batch.end(spark))
        self.fold_pending(spark)
        discard(before)  # not needed any more: a kill before this line leaves only garbage
        return changes.count()

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
