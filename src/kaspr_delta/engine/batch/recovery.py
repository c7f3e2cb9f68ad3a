"""How a resource begins, goes on after a kill or a gap, and makes its state anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kaspr_delta.engine.batch.batch import BatchRunner
from kaspr_delta.engine.batch.checkpoint import STATE_FORMAT, Start
from kaspr_delta.engine.batch.comparison import Comparison, compare, show
from kaspr_delta.engine.batch.counters import BatchTiming
from kaspr_delta.engine.batch.folding import Committed
from kaspr_delta.engine.batch.log import BatchMetadata
from kaspr_delta.engine.batch.migrations import migrations_from
from kaspr_delta.engine.batch.progress import folded_batches
from kaspr_delta.engine.batch.resource import Begun, Resource
from kaspr_delta.engine.rows.spark_rows import SparkRows
from kaspr_delta.errors import KasprError, RebuildNeededError, SetupError
from kaspr_delta.plan.definition.state_definitions import OTHER_COLUMNS, rebuild_needed
from kaspr_delta.storage.gone import is_gap, why_the_feed_ends


class Recovered(NamedTuple):
    """The older format of a state that was migrated, and the reason why a state was rebuilt."""

    migrated: int | None = None
    rebuilt: str | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """Begins checkpoints, and folds what a killed run had committed. Not to be called while the stream runs."""

    runner: BatchRunner

    def recover(self, spark: SparkSession, folded: Mapping[str, Mapping[str, int]]) -> Recovered:
        """Before the first batch, fold the batches that a killed run had committed (see ``folded_batches``).

        A checkpoint begins if there is none, or if the newest one reads other sources. A state of an older format is
        migrated, and a state of another definition is rebuilt where the resource says so. Otherwise it raises
        RebuildNeededError, and SetupError if the format cannot be migrated.
        """
        runner = self.runner
        with runner.lock:
            # Companions may fold for this resource, in another process too: so progress is read under the lock.
            runner.fold_unfolded(spark, folded_batches(runner.delta, spark) if runner.companions else folded)
            start = runner.log.end.start
            migrated = None if start is None or start.format == STATE_FORMAT else start.format
            if start is not None:
                changed = _changed(runner.resource, start, spark)
                if changed is not None:
                    self._begin(spark, again=True)
                    return Recovered(migrated, changed.reason)
                if runner.resource.expects_other_columns:  # they fit by now
                    runner.resource.end_replacement()
                self._migrate(spark, start)
            if start is None or runner.sources_changed(spark):
                self._begin(spark)
            return Recovered(migrated)

    def follow_sources(self, spark: SparkSession) -> None:
        """Begin a new checkpoint if the resource now reads other sources."""
        if self.runner.sources_changed(spark):
            with self._resumed(spark):
                self._begin(spark)

    def rebuild(self, spark: SparkSession) -> None:
        """Make the state anew from the current tables. Differences are emitted, in one commit."""
        with self._resumed(spark):
            self._begin(spark, again=True)

    def compare(self, spark: SparkSession) -> Comparison:
        """Write the rows that a rebuild would change into a table beside the result; no checkpoint begins.

        May be repeated. The state is not touched, except for the migration steps of an older format.
        """
        with self._resumed(spark):
            return compare(self.runner.resource, spark, *self._first_again(spark))

    def show(self, spark: SparkSession) -> int:
        """Let the current view show the result that a rebuild would make; return the number of rows that may differ."""
        with self._resumed(spark):
            decision, _ = self._first_again(spark)
            return show(self.runner.resource, spark, decision)

    def fill_gap(self, spark: SparkSession, error: Exception) -> bool:
        """Continue without the change feed if changes are gone from it; return whether that worked.

        Records are read from the rows of their topic, or of commits that were removed from its log. Resources without
        such rows make their state anew, if the application says so.
        """
        runner = self.runner
        if not is_gap(runner.failure or error):
            return False
        if runner.resource.fills_gaps:
            runner.failure = None
            self.rebuild(spark)
            return True
        with self._resumed(spark):
            timing = BatchTiming()
            try:
                caught_up = runner.resource.catch_up(spark, runner.log.end.metadata.state)
                caught_up = caught_up or self._backlog(spark)
                if caught_up is None:
                    return False
                self._commit_first(spark, caught_up, timing, goes_on=True)
            except FileNotFoundError:  # the rows are gone too
                return False
            except PySparkException as again:  # as are changes of a table
                if is_gap(again):
                    return False
                raise
            runner.failure = None
            return True

    def _backlog(self, spark: SparkSession) -> Begun | None:
        """A decision over all that a stream would read, in one batch, also from commits that were removed from logs.

        None if only a stream reads it, and for resources over tables alone: their old commits are not kept elsewhere.
        """
        runner, log = self.runner, self.runner.log.end
        if log.start is None:
            return None
        sources = runner.sources(spark)
        if not any(source.by_offset for source in sources.values()):
            return None
        tables = {name: source.table for name, source in sources.items() if source.table}
        versions = {table: runner.delta.newest(spark, table).version for table in tables.values()}
        as_they_are = runner.delta.as_they_are(versions)
        if as_they_are is None or len(tables) < len(sources):
            return None
        reached = runner.resource.reached(log.metadata.state)
        start = replace(log.start, positions={name: reached.get(name, log.start.positions[name]) for name in sources})
        changes = replace(runner.resource, delta=as_they_are).source(spark, start)
        decision = runner.resource.decide(SparkRows(changes), log.metadata.state)
        return decision, {name: source.upto(versions[tables[name]]) for name, source in sources.items()}

    def account_of(self, error: Exception) -> Exception:
        """The error that stopped the stream, with a clearer reason if one is known."""
        error = self.runner.failure or error
        reason = why_the_feed_ends(error)
        return error if reason is None else cannot_go_on(self.runner.resource, reason)

    @contextmanager
    def _resumed(self, spark: SparkSession) -> Iterator[None]:
        """Have the lock of the table group, with all committed batches folded."""
        with self.runner.lock:
            self.runner.fold_unfolded(spark, folded_batches(self.runner.delta, spark))
            yield

    def _migrate(self, spark: SparkSession, start: Start) -> None:
        """Bring the state to the format of this version. The last commit has its number (see ``migrations``)."""
        if start.format == STATE_FORMAT:
            return
        wrong, tables = self._mend(spark, start), table_ids(self.runner, spark)
        if wrong or (tables and not start.tables):  # without ids, a stream of a catalog cannot be continued
            self._begin(spark, again=True)
            return
        self.runner.begin_stream(spark, replace(start, format=STATE_FORMAT))

    def _mend(self, spark: SparkSession, start: Start) -> bool:
        """Take the steps from an older format; return whether results may have been wrong."""
        wrong = [step.mend(spark, self.runner.resource) for step in migrations_from(start.format)]
        return any(wrong)

    def _begin(self, spark: SparkSession, *, again: bool = False) -> None:
        """Begin a new checkpoint: the same steps as in a batch, over all rows.

        A state that is made ``again`` is folded even without differences: dead letters may have to go.
        """
        timing = BatchTiming()
        replaces = self.runner.resource.has_other_columns(spark)
        if replaces:
            self._check_result(spark)
        first = self._first(spark, again=again, replaces=replaces)
        self._commit_first(spark, first, timing, again=again, replaces=replaces)

    def _check_result(self, spark: SparkSession) -> None:
        """Raise SetupError if a result with other columns must not or cannot be made anew."""
        resource, start = self.runner.resource, self.runner.log.end.start
        if resource.result is None:
            return
        table, ref = resource.result.plan.delta_name, resource.ref
        location = resource.delta.files_stay_at(table)
        if start is None and resource.delta.count(spark, table):
            raise SetupError(
                f"{ref} cannot begin: its table {table} has other columns, and rows that it has not written. Give the"
                " join another name, or drop that table"
            )
        if location is not None:
            raise SetupError(
                f"{ref} cannot be rebuilt: its table {table} has other columns, and the files of this external table"
                f" would stay at {location}. Make the join anew: kaspr-delta delete {ref.kind} {ref.name} --purge,"
                " remove that folder, and apply it again"
            )

    def _first(self, spark: SparkSession, *, again: bool, replaces: bool) -> Begun:
        """The first decision of a new checkpoint. The tables of a state that is made ``again`` are migrated before.

        It has all rows where there is no log, and where it ``replaces`` the result.
        """
        end = self.runner.log.end
        if again and end.start is not None:
            self._mend(spark, end.start)
        everything = end.start is None or replaces
        return self.runner.resource.begin(spark, end.metadata.state, log_is_new=everything)

    def _first_again(self, spark: SparkSession) -> Begun:
        """The first decision of a rebuild."""
        return self._first(spark, again=True, replaces=self.runner.resource.has_other_columns(spark))

    def _commit_first(  # noqa: PLR0913  the batch, and what it is
        self,
        spark: SparkSession,
        begun: Begun,
        timing: BatchTiming,
        *,
        again: bool = False,
        goes_on: bool = False,
        replaces: bool = False,
    ) -> None:
        """Commit and fold the first batch of a new checkpoint (see ``Log.begin``, and ``BatchMetadata.replaces``)."""
        runner, (decision, positions) = self.runner, begun
        tables = table_ids(runner, spark)
        times = commit_times(runner, spark, positions) if tables else {}
        ids = {} if tables else ids_of_sources(runner, spark)
        start = Start(runner.resource.definition, positions, tables=tables, times=times, ids=ids)
        timing.done("decide")
        folds = again or replaces or decision.effects.max_rows != 0
        counts, state = decision.counts, decision.state
        metadata = BatchMetadata(-1, decision.rows_in, counts, state, folds=folds, replaces=replaces)
        first, rows = runner.log.begin(decision.effects, metadata, start, goes_on=goes_on)
        timing.done("commit")
        if folds:
            if rows.max_rows == 0:  # a table on the driver without rows may lack columns
                rows = runner.log.unfolded(spark, first.before, first)
            runner.report(runner.folding.fold(spark, [Committed(first, rows, metadata, timing)]))


def table_ids(runner: BatchRunner, spark: SparkSession) -> Mapping[str, str]:
    """By source, its table's id, if each stream has a checkpoint of its own; empty if streams are continued."""
    return {} if runner.delta.namespace.streams_go_on else ids_of_sources(runner, spark)


def ids_of_sources(runner: BatchRunner, spark: SparkSession) -> Mapping[str, str]:
    """By source, its table's id; empty if a source is an endpoint."""
    sources = runner.resource.sources(spark)
    if not all(source.table for source in sources.values()):  # only the stream knows how far it has read
        return {}
    return {name: str(runner.delta.table_id(spark, source.table)) for name, source in sources.items()}


def commit_times(runner: BatchRunner, spark: SparkSession, positions: Mapping[str, int]) -> Mapping[str, str]:
    """By source, the time of the commit at its position, if that is the newest one."""
    sources = runner.resource.sources(spark)
    newest = {name: runner.delta.newest(spark, source.table) for name, source in sources.items()}
    return {name: at.time for name, at in newest.items() if sources[name].upto(at.version) == positions.get(name)}


def cannot_go_on(resource: Resource[Any], reason: str) -> KasprError:
    """The error with this reason and the remedy: a rebuild, or deletion and a new beginning."""
    ref = resource.ref
    if resource.definition:
        return RebuildNeededError(str(ref), reason)
    return SetupError(
        f"{ref} cannot go on: {reason}. Delete it (kaspr-delta delete {ref.kind} {ref.name} --purge) and apply it"
        " again: it begins where its `start` says"
    )


def _changed(resource: Resource[Any], start: Start, spark: SparkSession) -> RebuildNeededError | None:
    """The error that the state was made by another definition, which is raised unless the resource rebuilds itself."""
    error = rebuild_needed(resource.ref, start.definition, resource.definition)
    if error is None and resource.expects_other_columns and resource.has_other_columns(spark):
        error = RebuildNeededError(str(resource.ref), OTHER_COLUMNS)
    if error is not None and not resource.rebuilds_itself:
        raise error
    return error
