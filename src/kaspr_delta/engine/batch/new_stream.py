"""Streams over tables of a catalog, each of which is a new one: where it starts, and whether it would read anything."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from itertools import chain

from pyspark.sql import DataFrame, SparkSession

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT, Start, checkpoints_of
from kaspr_delta.engine.batch.log import read_ends
from kaspr_delta.engine.batch.recovery import cannot_go_on
from kaspr_delta.engine.batch.sources import NOTHING, SourceTable
from kaspr_delta.plan.definition.state_definitions import rebuild_needed
from kaspr_delta.storage.folders import Folder, discard
from kaspr_delta.storage.gone import TABLE_REPLACED
from kaspr_delta.storage.side_by_side import side_by_side
from kaspr_delta.storage.stream_checkpoint import Position, positions_in
from kaspr_delta.storage.tables import Commit

# The commits of a table that are read to find the last one that a stream has read.
_RECENT = 20
# Seconds after which a stream that does not end, and has read something, is followed by the next one.
_LONG = 600.0
# Sources of which each is asked for its newest commit.
_ASKED_AT_ONCE = 2
_lot = random.SystemRandom()


@dataclass(frozen=True)
class NewStream:
    """A stream with a Spark checkpoint of its own. It begins at the start in the log, which a stream writes at its end.

    A stream whose run died is not continued: the log says how far its batches came. ``recent`` has by table its newest
    commits when the stream was made, the newest first. It reads the tables that have news then, for a stream can begin
    at a commit that is there: the files of an older one, which was read, may be gone.

    A stream that does not end reads those in ``kept`` too: the sources of which the stream before has just read
    something. The others are looked at (``is_over``): their news make the next stream begin. ``kept`` is None if the
    stream ends.
    """

    runner: BatchRunner
    sources: Mapping[str, SourceTable]
    recent: Mapping[str, Sequence[Commit]]
    kept: frozenset[str] | None = None
    made_at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, runner: BatchRunner, spark: SparkSession, kept: frozenset[str] | None = None) -> NewStream:
        """The next stream of a resource."""
        sources = runner.sources(spark)
        return cls(runner, sources, _recent(runner, spark, sources.values()), kept)

    @property
    def at_start(self) -> dict[str, Commit]:
        """By table, its newest commit when the stream was made."""
        return {table: commits[0] for table, commits in self.recent.items()}

    @property
    def checkpoint(self) -> Folder:
        """The folder of Spark's checkpoint."""
        runner = self.runner
        return checkpoints_of(runner.delta.namespace, runner.resource.ref) / runner.log.end.start_batch.name

    @property
    def oldest_change(self) -> datetime | None:
        """The time of the oldest commit that it reads; None if there is none. The first load of a table does not count.

        Of a source of which more than the recent commits are unread it is the time of the last one that was read.
        """
        found = list[datetime]()
        for name, source in self.sources.items():
            position, times = self._start.positions[name], self._start.times
            read, recent = source.version(position), self.recent[source.table]
            unread = [commit.at.astimezone(timezone.utc) for commit in recent if commit.version > read]
            if position == NOTHING or not unread:
                continue
            is_known = name not in times or recent[-1].version <= read + 1
            found.append(min(unread) if is_known else datetime.fromisoformat(times[name]))
        return min(found, default=None)

    def has_read_all(self, spark: SparkSession) -> bool:
        """Whether an earlier stream has read the tables as they are."""
        return self.has_read(spark, self.at_start)

    def has_read(self, spark: SparkSession, newest: Mapping[str, Commit]) -> bool:
        """Whether the ``newest`` commits of tables were read, as far as these are sources.

        A commit that is older than the position is that of another table, and so may one of the same version be.
        """
        start = self._start
        for name, source in self.sources.items():
            commit = newest.get(source.table)
            if commit is None:
                continue
            if start.positions[name] < source.upto(commit.version):
                return False
            if start.times.get(name) != commit.time and not self._is_the_same(spark, name, source.table):
                return False
        return True

    def read_up_to(self) -> Iterator[tuple[str, Commit | None]]:
        """The tables of the sources with the last commit of each that was read; None if only its version is known."""
        start = self._start
        for name, source in self.sources.items():
            at, version = start.times.get(name), source.version(start.positions[name])
            yield source.table, None if at is None else Commit(version, datetime.fromisoformat(at))

    def changes(self, spark: SparkSession) -> DataFrame | None:
        """The changes of the tables that it reads; None if there are none.

        Raises the error of ``cannot_go_on`` if a table was replaced. In a stream that ends a batch pins the commits at
        the start.
        """
        runner = self.runner
        if not all(self._was_read(spark, name, source) for name, source in self.sources.items()):
            raise cannot_go_on(runner.resource, TABLE_REPLACED)
        if self.checkpoint.has_folder("."):
            with runner.lock:
                self._begin(spark, self._start)
        read, start = self._read, self._start
        if not read:
            return None
        runner.oldest_change = self.oldest_change
        pinned = replace(runner.resource, delta=runner.delta.pinning(self.at_start))
        runner.resource = pinned if self.kept is None else replace(pinned, delta=runner.delta)
        return pinned.source(spark, replace(start, positions={name: start.positions[name] for name in read}))

    def is_over(self, spark: SparkSession) -> bool:
        """Whether it is time for the next one, if this one does not end by itself.

        A table that it does not read has a new commit; or it has read something, and long ago it began: a run that dies
        reads again what its stream has read.
        """
        read, known = self._read, self.at_start
        others = sorted({source.table for name, source in self.sources.items() if name not in read})
        if side_by_side([partial(self.runner.delta.newest, spark, table) for table in others]) != [
            known[table] for table in others
        ]:
            return True
        if time.monotonic() - self.made_at < _LONG:
            return False
        at, positions = self._positions, self._start.positions
        return any(self.sources[name].upto(at[name].unread - 1) > positions[name] for name in at)

    def stop(self, spark: SparkSession) -> frozenset[str]:
        """Write the start of the next stream after this one, which does not end by itself, was stopped.

        Returns the sources of which it has read something.
        """
        runner, at, before = self.runner, self._positions, self._start
        recent = _recent(runner, spark, [self.sources[name] for name in at])
        positions, times = dict(before.positions), dict(before.times)
        for name, position in at.items():
            source = self.sources[name]
            commits = {one.version: one for one in recent[source.table]}
            reached = commits.get(position.version)
            version = position.last_read(None if reached is None else reached.change_files)
            if source.upto(version) > positions[name]:
                positions[name] = source.upto(version)
                times.pop(name, None)
                if version in commits:
                    times[name] = commits[version].time
        read = frozenset(name for name in at if positions[name] > before.positions[name])
        if read:
            with runner.lock:
                runner.read_log_end(spark)
                self._begin(spark, replace(before, positions=positions, times=times))
        return read

    def finish(self, spark: SparkSession) -> None:
        """Write the start of the next stream, after this one has read everything that was there when it was made."""
        runner, commits = self.runner, self.at_start
        with runner.lock:
            runner.read_log_end(spark)
            times = {name: commits[source.table].time for name, source in self.sources.items()}
            self._begin(spark, replace(self._start, positions=self._newest, times=times))

    @property
    def _start(self) -> Start:
        return self.runner.stream_start

    @property
    def _newest(self) -> dict[str, int]:
        """The positions at which the tables are read as far as they were when the stream was made."""
        commits = self.at_start
        return {name: source.upto(commits[source.table].version) for name, source in self.sources.items()}

    @property
    def _read(self) -> frozenset[str]:
        """The sources that it reads: those that had news when it was made, and those that are kept."""
        newest = self._newest
        news = (name for name, position in self._start.positions.items() if position < newest[name])
        return frozenset(news) | ((self.kept or frozenset()) & newest.keys())

    @property
    def _positions(self) -> dict[str, Position]:
        """How far it has read its sources by its last batch that has ended, by their tables' ids."""
        reached: dict[str, Position] = {}
        for position in positions_in(self.checkpoint):
            if position is not None:  # a table may be both sides of a join
                reached[position.table_id] = min(position, reached.get(position.table_id, position))
        ids = self._start.tables
        return {name: reached[ids[name]] for name in sorted(self._read) if ids.get(name) in reached}

    def _was_read(self, spark: SparkSession, name: str, source: SourceTable) -> bool:
        """Whether the table of a source is the one that was read.

        Another table has no commit of the same version and time. If that commit is not recent, ids are compared.
        """
        at, version = self._start.times.get(name), source.version(self._start.positions[name])
        known = any(commit.version == version and commit.time == at for commit in self.recent[source.table])
        return known or self._is_the_same(spark, name, source.table)

    def _is_the_same(self, spark: SparkSession, name: str, table: str) -> bool:
        """Whether the table of a source is the one that was read, by its id."""
        return self._start.tables[name] == str(self.runner.delta.table_id(spark, table))

    def _begin(self, spark: SparkSession, start: Start) -> None:
        """Write a new start. Batches may have read further: also commits that came as the stream started."""
        before = self.checkpoint
        self.runner.begin_stream(spark, start)
        discard(before)  # not needed any more: a kill before this line leaves only garbage


def _recent(runner: BatchRunner, spark: SparkSession, sources: Iterable[SourceTable]) -> dict[str, Sequence[Commit]]:
    """By table of these sources, its newest commits, the newest first."""
    tables = list(dict.fromkeys(source.table for source in sources))
    found = side_by_side([partial(runner.delta.newest_commits, spark, table, _RECENT) for table in tables])
    return dict(zip(tables, found, strict=True))


def have_nothing_to_do(
    spark: SparkSession, runners: Sequence[BatchRunner], folded: Mapping[str, Mapping[str, int]]
) -> bool:
    """Whether a run would write nothing for these resources. Reads only, so that it takes no lock.

    It reads the ends of all logs by one statement, and the sources by two at most, see ``_newest_commits``; another one
    for each table that may have something new. ``folded`` was read before (see ``folded_batches``): a batch committed
    meanwhile counts as unfolded. Of endpoints only a stream knows: their news are not looked for.
    """
    unfolded = read_ends(spark, [(one.log, folded.get(str(one.resource.ref), {})) for one in runners])
    if any(unfolded) or not all(_goes_on(one, spark, folded) for one in runners):
        return False
    streams = [NewStream(one, one.sources(spark), {}) for one in runners if one.stream_start.tables]
    newest = _newest_commits(spark, streams)
    return all(stream.has_read(spark, newest) for stream in streams)


def _goes_on(runner: BatchRunner, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether a new stream goes on from the end of the log that was read: nothing is to be made, migrated or folded.

    Nor has the clock made work due. False before the first run.
    """
    start, resource = runner.log.end.start, runner.resource
    if start is None or start.format != STATE_FORMAT or runner.folding.state_lags(folded):
        return False
    if not start.tables and not all(source.is_endpoint for source in runner.sources(spark).values()):
        return False
    if resource.expects_other_columns:
        return False
    if resource.timed and resource.is_due(runner.log.end.metadata.state, ending=True):
        return False
    changed = rebuild_needed(resource.ref, start.definition, resource.definition) is not None
    return not changed and not runner.sources_changed(spark)


def _newest_commits(spark: SparkSession, streams: Sequence[NewStream]) -> Mapping[str, Commit]:
    """The newest commit of each source that may have a new one.

    The change data feeds of all sources are read by one statement. That shows neither commits without changed rows nor
    every replaced table, so one source, drawn by lot, is asked for its newest commit all the same: soon each one was.
    """
    read: dict[str, set[Commit | None]] = {}
    for table, commit in chain.from_iterable(stream.read_up_to() for stream in streams):
        read.setdefault(table, set()).add(commit)
    # Two sources are asked by two statements either way, and of its newest commit each one tells more.
    drawn = list(read) if len(read) <= _ASKED_AT_ONCE else [_lot.choice(list(read))]
    # Readers of a table that have read it differently are rare: as after OPTIMIZE.
    known = {table: one for table, (one, *others) in read.items() if one is not None and not others}
    known = {table: commit for table, commit in known.items() if table not in drawn}
    if not read:
        return {}
    delta = streams[0].runner.delta
    unchanged = known.keys() - set(delta.changed_since(spark, known)) if known else set()
    asked = [table for table in read if table not in unchanged]
    newest = side_by_side([partial(delta.newest, spark, table) for table in asked])
    return dict(zip(asked, newest, strict=True))
