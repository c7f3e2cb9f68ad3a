"""A Spark session that starts when it is first used. What delta-rs does uses none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kaspr_delta.errors import SparkNeededError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LazySession:
    """Stands where a SparkSession is expected, and starts one when an attribute is first asked for.

    ``start`` gets the reason. ``prepare`` is then called with the session, before others can use it; it may use this
    object itself.
    """

    def __init__(self, start: Callable[[str], SparkSession], prepare: Callable[[SparkSession], None]) -> None:
        self._start, self._prepare = start, prepare
        self._session: SparkSession | None = None
        # The thread that prepares the session.
        self._preparing: int | None = None
        self._lock = threading.RLock()
        # Whether it was ever used, also in vain.
        self.was_used = False
        self.reason = ""
        """Why the next use needs Spark, as a sentence without its end; empty where the caller says it."""

    @property
    def is_running(self) -> bool:
        """Whether the session was started and prepared; for the thread that prepares it, whether it was started.

        Another thread may hold the lock of a table, for which the preparation waits: it must not wait for the session.
        """
        return self._session is not None and self._preparing in {None, threading.get_ident()}

    @property
    def session(self) -> SparkSession:
        """The session itself. Raises what its start raises; the next use then starts it again."""
        with self._lock:
            self.was_used = True
            if self._session is None:
                session = self._start(self.reason)
                self._preparing, self._session = threading.get_ident(), session
                try:
                    self._prepare(session)
                except BaseException:
                    self._session = None
                    raise
                finally:
                    self._preparing = None
            return self._session

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a look at the object itself, by copy, pickle or a debugger
            raise AttributeError(name)
        return getattr(self.session, name)


def session_of(spark: SparkSession) -> SparkSession:
    """The session that an object stands for; it is started by now."""
    return spark.session if isinstance(spark, LazySession) else spark


def is_running(spark: SparkSession) -> bool:
    """Whether a session runs, so that Spark costs no start."""
    return not isinstance(spark, LazySession) or spark.is_running


def runs_here(session: SparkSession) -> bool:
    """Whether batches run in this process. Spark Connect, whose sessions have another class, runs them on a server."""
    return ".connect." not in type(session).__module__


def because(spark: SparkSession, reason: str) -> SparkSession:
    """The session, for a use that only Spark can serve, for that reason."""
    if isinstance(spark, LazySession):
        spark.reason = reason
    return spark


def check_unused(spark: SparkSession) -> None:
    """Raise SparkNeededError if work without Spark has used the session in vain: a function may have hidden that."""
    if isinstance(spark, LazySession) and spark.was_used and not spark.is_running:
        raise SparkNeededError(spark.reason)


def without_spark() -> SparkSession:
    """Stands for a session where work is done as far as it goes without one. Its use raises SparkNeededError."""
    return lazy_session(_refused, lambda _: None)


def _refused(reason: str) -> SparkSession:
    raise SparkNeededError(reason)


def lazy_session(start: Callable[[str], SparkSession], prepare: Callable[[SparkSession], None]) -> SparkSession:
    """A LazySession, by the type that it stands for."""
    return cast("SparkSession", LazySession(start, prepare))
