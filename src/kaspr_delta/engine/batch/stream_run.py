"""The streams of a resource: where each starts, and whether there is anything to read."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT, BatchId, Start, checkpoints_of
from kaspr_delta.engine.batch.decision import SourceTable
from kaspr_delta.engine.batch.log import read_ends
from kaspr_delta.engine.batch.progress import folded_batches
from kaspr_delta.engine.batch.recovery import Recovery, cannot_go_on
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.plan.definition.state_definitions import rebuild_needed
from kaspr_delta.storage.folders import Folder, discard
from kaspr_delta.storage.gone import TABLE_REPLACED
from kaspr_delta.storage.lazy_session import runs_here
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.stream_checkpoint import positions_in, remove_unfinished
from kaspr_delta.storage.tables import Commit

# The commits of a table that are read to find the last one that a stream has read.
_RECENT = 20
# Sources of which each is asked for its newest commit.
_ASKED_AT_ONCE = 2
_lot = random.SystemRandom()


@dataclass
class ResourceRun:
    """The runs of a resource: its streams, one after another. ``runner`` runs their batches."""

    runner: BatchRunner
    recovery: Recovery
    # Whether the folds of a stream that ends may wait for those that follow it.
    rests: bool = field(default=False, init=False)
    # By table, its newest commits at the start of the current stream, the newest first.
    _recent: Mapping[str, Sequence[Commit]] = field(default_factory=dict, init=False)
    # Of the stream that ended last: its first batch, and the commits at its start.
    _last_stream: tuple[BatchId, Mapping[str, Commit]] | None = field(default=None, init=False)

    @property
    def resource(self) -> Resource[Any]:
        return self.runner.resource

    def start(self, spark: SparkSession, every: int | None) -> StreamingQuery | None:
        """Start the stream: until all present rows are processed, or, ``every`` so many milliseconds, until stopped.

        None if there is nothing to do: no topic matches a pattern, or all commits to its sources have been processed.
        The second is checked in a run that ends, and over tables of a catalog in every run. Raises the error of
        ``cannot_go_on`` if one of these was replaced.
        """
        runner = self.runner
        if runner.failure is not None:  # it may have committed a batch without folding it
            runner.failure = None
            self.recovery.recover(spark, folded_batches(runner.delta, spark))
        self.fold_waiting(spark)  # waiting batches belong to the session of the stream before
        runner.folding.endless = every is not None or self.rests
        if runner.shipped:
            with runner.lock:
                runner.read_log_end(spark)
        sources = self.sources(spark)
        self._recent = self._recent_commits(spark, sources)
        if not sources or (every is None and self._has_read_all(spark)):
            return None
        unread = self._unread(spark)
        if not unread.positions:  # a run that died had read all news
            return None
        if unread.tables:
            runner.resource = replace(runner.resource, delta=runner.delta.pinning(self._at_start))
        stream = self.resource.source(spark, unread)
        remove_unfinished(self._checkpoint)
        runner.shipped = not runs_here(spark)
        writer = stream.writeStream.foreachBatch(runner.run)
        writer = writer.option("checkpointLocation", self._checkpoint.for_spark).queryName(str(runner.resource.ref))
        if every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every} milliseconds").start()

    def _recent_commits(self, spark: SparkSession, sources: Mapping[str, SourceTable]) -> dict[str, list[Commit]]:
        """Over tables of a catalog with those that later tell a table from another one of its name."""
        tables = list(dict.fromkeys(source.table for source in sources.values() if source.table is not None))
        delta, start = self.runner.delta, self._start
        if not start.tables:
            return {table: [delta.newest(spark, table)] for table in tables}
        found = side_by_side([partial(delta.newest_commits, spark, table, _RECENT) for table in tables])
        return dict(zip(tables, found, strict=True))

    @property
    def _at_start(self) -> dict[str, Commit]:
        """By table, its newest commit at the start of the current stream."""
        return {table: commits[0] for table, commits in self._recent.items()}

    def fold_waiting(self, spark: SparkSession) -> None:
        """Fold the batches that wait after a stream; those of a resource that ``rests`` if they are due."""
        self.runner.fold_waiting(spark, if_due=self.rests)

    def goes_on(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether a stream goes on from the end of the log that was read: nothing is to be made, migrated or folded.

        ``folded`` was read before (see ``folded_batches``). False before the first run.
        """
        runner, resource = self.runner, self.resource
        start = runner.log.end.start
        if start is None or not start.tables or start.format != STATE_FORMAT or runner.folding.state_lags(folded):
            return False
        changed = rebuild_needed(resource.ref, start.definition, resource.definition) is not None
        return not changed and not self.recovery.sources_changed(spark)

    def read_up_to(self, spark: SparkSession) -> Iterator[tuple[str, Commit | None]]:
        """The tables of the sources with the last commit of each that was read; None if only its version is known."""
        start = self._start
        for name, source in self.sources(spark).items():
            if source.table is not None:
                at = start.times.get(name)
                version = source.version(start.positions[name])
                yield source.table, None if at is None else Commit(version, datetime.fromisoformat(at))

    def has_read(self, spark: SparkSession, newest: Mapping[str, Commit]) -> bool:
        """Whether the ``newest`` commits of tables were read, as far as these are sources.

        A commit that is older than the position is that of another table, and so may one of the same version be.
        """
        start = self._start
        for name, source in self.sources(spark).items():
            commit = None if source.table is None else newest.get(source.table)
            if source.table is None or commit is None:
                continue
            if start.positions[name] < source.upto(commit.version):
                return False
            if start.times.get(name) != commit.time and not self._is_the_same(spark, name, source.table):
                return False
        return True

    def _was_read(self, spark: SparkSession, name: str, source: SourceTable) -> bool:
        """Whether the table of a source is the one that was read.

        Another table has no commit of the same version and time. If that commit is not recent, ids are compared.
        """
        at, version = self._start.times.get(name), source.version(self._start.positions[name])
        table = str(source.table)
        known = any(commit.version == version and commit.time == at for commit in self._recent[table])
        return known or self._is_the_same(spark, name, table)

    def _is_the_same(self, spark: SparkSession, name: str, table: str) -> bool:
        """Whether the table of a source is the one that was read."""
        return self._start.tables[name] == str(self.runner.delta.table_id(spark, table))

    def finish(self, spark: SparkSession) -> None:
        """End a stream that has processed everything that was present at its start."""
        runner = self.runner
        self.fold_waiting(spark)
        if self._start.tables:
            with runner.lock:
                runner.read_log_end(spark)
                sources = self.sources(spark).items()
                times = {name: self._at_start[one.table].time for name, one in sources if one.table is not None}
                self._continue(spark, replace(self._start, positions=self._newest(spark), times=times))
        self._last_stream = runner.log.end.start_batch, self._at_start

    @property
    def _start(self) -> Start:
        if self.runner.log.end.start is None:
            msg = f"{self.resource.ref} was not recovered"
            raise RuntimeError(msg)
        return self.runner.log.end.start

    def sources(self, spark: SparkSession) -> Mapping[str, SourceTable]:
        """The sources that the stream reads, by name."""
        sources = self.resource.sources(spark)
        return {name: source for name, source in sources.items() if name in self._start.positions}

    @property
    def _checkpoint(self) -> Folder:
        """The folder of Spark's checkpoint. A stream that is continued keeps it when a migration writes a new start."""
        start_batch = self.runner.log.end.start_batch
        name = start_batch.name if self._start.tables else start_batch.checkpoint
        return checkpoints_of(self.runner.delta.namespace, self.resource.ref) / name

    def _has_read_all(self, spark: SparkSession) -> bool:
        """Whether all current versions of the tables were read, by a stream of this run or by an earlier one.

        Only Spark's checkpoint, or the start with which the last stream ended, knows what earlier ones read: a batch
        that changes nothing leaves no trace in the log, and a large commit comes in several batches.
        """
        start, delta = self._start, self.runner.delta
        if self._last_stream is not None and self._last_stream[0] == self.runner.log.end.start_batch:
            return self._at_start == self._last_stream[1]
        if start.tables:
            return self.has_read(spark, self._at_start)
        sources = self.sources(spark)
        of_sources = [sources[name].table for name in sorted(sources)]
        tables = [(table, self._at_start[table].version) for table in of_sources if table is not None]
        if len(tables) < len(sources):  # the checkpoint has no version of an endpoint
            return False
        positions = positions_in(self._checkpoint)
        return len(positions) == len(tables) and all(
            position is not None
            and position.has_read(version, delta.change_file_count(table, version))
            and position.table_id == delta.table_id(spark, table)
            for (table, version), position in zip(tables, positions, strict=True)
        )

    def _newest(self, spark: SparkSession) -> dict[str, int]:
        """The positions at which the tables are read as far as they were when the stream began."""
        return {
            name: source.upto(0 if source.table is None else self._at_start[source.table].version)
            for name, source in self.sources(spark).items()
        }

    def _news(self, spark: SparkSession) -> dict[str, int]:
        """The sources whose tables have new commits, with their positions."""
        newest = self._newest(spark)
        return {name: position for name, position in self._start.positions.items() if position < newest[name]}

    def _unread(self, spark: SparkSession) -> Start:
        """The start of the next stream. In a folder it is that of the checkpoint.

        Over tables of a catalog each stream is a new one: its start has only the sources with new commits. A stream
        whose run died is not continued: the log says how far its batches came.
        """
        start, runner = self._start, self.runner
        if not start.tables:
            return start
        if not all(self._was_read(spark, name, source) for name, source in self.sources(spark).items()):
            raise cannot_go_on(runner.resource, TABLE_REPLACED)
        if self._checkpoint.has_folder("."):
            with runner.lock:
                self._continue(spark, start)
        return replace(self._start, positions=self._news(spark))

    def _continue(self, spark: SparkSession, start: Start) -> None:
        """Begin a new stream at a start, or where batches have read more: commits that came as it started."""
        before = self._checkpoint
        self.recovery.begin_stream(spark, start)
        discard(before)  # not needed any more: a kill before this line leaves only garbage


def have_nothing_to_do(
    spark: SparkSession, runs: Sequence[ResourceRun], folded: Mapping[str, Mapping[str, int]]
) -> bool:
    """Whether a run would write nothing for these resources. Reads only, so that it takes no lock.

    It reads the ends of all logs by one statement, and the sources by two at most, see ``_newest_commits``.
    ``folded`` was read before (see ``folded_batches``): a batch that another process commits meanwhile counts as
    unfolded. False for resources that can have work without a new commit.
    """
    if any(run.resource.timed for run in runs):
        return False
    unfolded = read_ends(spark, [(run.runner.log, folded.get(str(run.resource.ref), {})) for run in runs])
    if any(unfolded) or not all(run.goes_on(spark, folded) for run in runs):
        return False
    newest = _newest_commits(spark, runs)
    return all(run.has_read(spark, newest) for run in runs)


def _newest_commits(spark: SparkSession, runs: Sequence[ResourceRun]) -> Mapping[str, Commit]:
    """The newest commit of each source that may have a new one.

    The change data feeds of all sources are read by one statement. That shows neither commits without changed rows nor
    every replaced table, so one source, drawn by lot, is asked for its newest commit all the same: soon each one was.
    """
    read: dict[str, set[Commit | None]] = {}
    for table, commit in chain.from_iterable(run.read_up_to(spark) for run in runs):
        read.setdefault(table, set()).add(commit)
    # Two sources are asked by two statements either way, and of its newest commit each one tells more.
    drawn = list(read) if len(read) <= _ASKED_AT_ONCE else [_lot.choice(list(read))]
    # Readers of a table that have read it differently are rare: as after OPTIMIZE.
    known = {table: one for table, (one, *others) in read.items() if one is not None and not others}
    known = {table: commit for table, commit in known.items() if table not in drawn}
    delta = runs[0].runner.delta
    unchanged = known.keys() - set(delta.changed_since(spark, known)) if known else set()
    asked = [table for table in read if table not in unchanged]
    newest = side_by_side([partial(delta.newest, spark, table) for table in asked])
    return dict(zip(asked, newest, strict=True))
