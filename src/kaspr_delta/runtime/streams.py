"""The streaming queries of a run: start, watch, restart after recoverable errors, and stop them."""

from __future__ import annotations

import ast
import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException

from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.failures import Failures
from kaspr_delta.runtime.run_events import ColumnsChanged, GapFilled, LagSeen, Listener, Started, ignore_event
from kaspr_delta.storage.folders import Folder, LocalFolder
from kaspr_delta.storage.gone import columns_were_added
from kaspr_delta.storage.native.log_files import rows_changed_after
from kaspr_delta.storage.stream_checkpoint import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from typing_extensions import Self


# Seconds between two checks of a query that is to stop, and of one that runs until all is processed.
_STOP_POLL, _AWAIT_POLL = 0.1, 1
_NO_WORKER = "Python worker failed to connect back"
_MORE_ATTEMPTS = 5
# The error of compute that has only streams that end.
_MUST_END = "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED"


@dataclass
class Streams:
    """The queries of some resources. With an interval they run until stopped, without one until all is processed.

    If ``is_lost`` returns True, another process runs the resources: nothing is written any more.
    """

    spark: SparkSession
    runs: Mapping[ResourceRef, ResourceRun]
    failures: Failures
    every: int | None
    listener: Listener = ignore_event
    is_lost: Callable[[], bool] = lambda: False
    queries: dict[ResourceRef, StreamingQuery] = field(default_factory=dict, init=False)
    # Whether Spark has refused a stream because it does not end.
    must_end: bool = field(default=False, init=False)
    _restarted: set[ResourceRef] = field(default_factory=set, init=False)
    _filled: set[ResourceRef] = field(default_factory=set, init=False)
    # When each resource was last asked for other sources, and for another stream.
    _asked_at: dict[ResourceRef, float] = field(default_factory=dict, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop all queries, and fold the waiting batches of those that did not fail."""
        for query in self.queries.values():
            _stop_after_batch(query)
        for ref in self.queries:
            if ref not in self.failures and not self.is_lost():
                with self.failures.noting(ref):
                    self.runs[ref].fold_pending(self.spark)
                    self._note_reading(ref)

    def start(self, refs: Sequence[ResourceRef]) -> None:
        """Start resources that have something to read, unless a stream ``must_end`` and does not.

        One that fails to start does not stop the others.
        """
        for ref in refs:
            self.listener(Started(ref))
        for ref in refs:
            with self.failures.noting(ref):
                self.runs[ref].recovery.follow_sources(self.spark)
                try:
                    self._start(ref)
                except PySparkException as error:
                    if self.every is None or _MUST_END not in str(error):
                        raise
                    self.must_end = True
                    return

    def await_processed(self, ref: ResourceRef, stop: threading.Event) -> int:
        """Wait until a resource has processed all available rows, or ``stop`` is set. Returns the number of rows.

        Raises the error that stopped the query, unless a restart gets over it.
        """
        if ref not in self.queries:
            return 0
        try:
            while not self.queries[ref].awaitTermination(_AWAIT_POLL):
                if stop.is_set():
                    return 0
                self.tell_lag()
        except Exception:
            if not self.restart(ref):
                raise
            # A filled gap may have emitted rows outside the stream: report one, so that a loop runs another round.
            return max(1, self.await_processed(ref, stop))
        self.runs[ref].finish(self.spark)
        # Spark Connect reports no sum over all sources.
        progress = self.queries[ref].recentProgress
        return sum(int(source["numInputRows"]) for batch in progress for source in batch["sources"])

    def restart(self, ref: ResourceRef) -> bool:
        """Restart a query that stopped because a table got columns, or at a gap that its resource can fill.

        A second restart for the same reason needs progress since the first. Returns whether the query goes on.
        """
        query = self.queries[ref]
        error = query.exception()
        has_got_on = query.lastProgress is not None
        if error is None:
            return False
        if columns_were_added(error) and (has_got_on or ref not in self._restarted):
            self._restarted.add(ref)
            self._start(ref)
            self.listener(ColumnsChanged(ref))
            return True
        if (has_got_on or ref not in self._filled) and self.runs[ref].recovery.fill_gap(self.spark, error):
            self._filled.add(ref)
            self._start(ref)
            self.listener(GapFilled(ref, rebuilt=self.runs[ref].resource.fills_gaps))
            return True
        return False

    def revive(self) -> None:
        """Restart the queries that stopped, as far as they can be. The others have failed."""
        for ref in [ref for ref, query in self.queries.items() if not query.isActive]:
            try:
                restarted = self.restart(ref)
            except Exception as error:  # noqa: BLE001  the others go on
                self._fail(ref, error)
            else:
                if not restarted:
                    self._fail(ref, self.queries[ref].exception())

    @property
    def took_new_columns(self) -> bool:
        """Whether a query restarted for new columns has made progress since: the plan must learn these columns."""
        going_on = [query for ref, query in self.queries.items() if ref in self._restarted]
        return any(query.lastProgress is not None for query in going_on)

    def tell_lag(self) -> None:
        """Tell the listener, if there is one, the lag of each resource."""
        if self.listener is ignore_event:
            return
        for ref, query in self.queries.items():
            progress = query.lastProgress
            lag = None if progress is None else lag_of(progress)
            if lag is not None:
                self.listener(LagSeen(ref, lag))

    def tick(self, ref: ResourceRef) -> None:
        """Do the work that no arriving record starts: due folds, timed batches, new topics, the next stream."""
        run = self.runs[ref]
        try:
            run.runner.fold_pending(self.spark, if_due=True)
            if run.resource.timed:
                run.runner.tick(self.spark, ending=False)
            if time.monotonic() - self._asked_at.get(ref, 0) < (self.every or 0) / 1_000:
                return
            other_sources = run.runner.sources_changed(self.spark)
            if other_sources or run.is_over(self.spark):
                if ref in self.queries:
                    _stop_after_batch(self.queries[ref])
                    self._note_reading(ref)
                if other_sources:
                    run.recovery.follow_sources(self.spark)
                self._start(ref)
            self._asked_at[ref] = time.monotonic()
        except Exception as error:  # noqa: BLE001  raised at the end; the others go on
            self._fail(ref, error)

    def _note_reading(self, ref: ResourceRef) -> None:
        """Note how far a stopped query has read that runs until stopped, unless it has failed."""
        if self.every is not None and self.queries[ref].exception() is None:
            self.runs[ref].stop(self.spark)

    def _fail(self, ref: ResourceRef, error: Exception | None) -> None:
        self.failures.note(ref, error)
        query = self.queries.pop(ref, None)
        if query is not None:
            _stop_after_batch(query)

    def _start(self, ref: ResourceRef) -> None:
        started = self._started(ref)
        if started is None:  # after a gap it may have caught up without a stream
            self.queries.pop(ref, None)
        else:
            self.queries[ref] = started

    def _started(self, ref: ResourceRef) -> StreamingQuery | None:
        """Start the query, with retries: a busy Spark Connect server waits only ten seconds for a stream's worker."""
        for _ in range(_MORE_ATTEMPTS):
            try:
                return self.runs[ref].start(self.spark, self.every)
            except PySparkException as error:
                if _NO_WORKER not in str(error):
                    raise
        return self.runs[ref].start(self.spark, self.every)

    def note_failures(self) -> None:
        """Note the errors of queries that stopped, unless noted before."""
        for ref, query in self.queries.items():
            if ref not in self.failures:
                self.failures.note(ref, query.exception())


def _stop_after_batch(query: StreamingQuery) -> None:
    """Stop a query between two batches: an interrupted batch is replayed anyway, but would leave noise in the log."""
    pause = threading.Event()
    batch = _batch_of(query)
    while query.isActive and query.status["isTriggerActive"] and _batch_of(query) == batch:
        pause.wait(_STOP_POLL)
    query.stop()


def _batch_of(query: StreamingQuery) -> int | None:
    """The id of the last batch that ended; None before the first."""
    last = query.lastProgress
    return None if last is None else int(last["batchId"])


def lag_of(progress: Mapping[str, Any]) -> int | None:
    """The rows and records of all sources that a query had not read yet by its last progress; None if unknown."""
    behind = [_behind(source) for source in progress["sources"]]
    known = [rows for rows in behind if rows is not None]
    return sum(known) if len(known) == len(behind) else None


def _behind(source: Mapping[str, Any]) -> int | None:
    folder, position = _folder(source["description"]), Position.of(_object(source["endOffset"]))
    return None if folder is None or position is None else rows_changed_after(folder, position.unread - 1)


def _folder(description: str) -> Folder | None:
    """The folder in ``DeltaSource[file:/…/orders]``; None if it is not on this machine."""
    url = urlsplit(description.partition("[")[2].removesuffix("]"))
    return LocalFolder(Path(unquote(url.path))) if url.scheme == "file" else None


def _object(offset: Any) -> Mapping[str, Any]:
    """An offset as an object; empty if it is none. Spark gives it parsed, as JSON text, or (4.1) as Python's text."""
    found = _parsed(offset) if isinstance(offset, str) else offset
    return found if isinstance(found, Mapping) else {}


def _parsed(text: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError):
            return read(text)
    return None
