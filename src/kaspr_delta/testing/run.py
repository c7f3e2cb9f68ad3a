"""Run fixtures: each on an application in a folder of its own, all on one Spark session."""

from __future__ import annotations

import functools
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kaspr_delta.api.join import StreamJoinHandle
from kaspr_delta.application import Application, Starting
from kaspr_delta.errors import KasprError, NotFoundError
from kaspr_delta.plan.definition.waiting import in_words
from kaspr_delta.runtime.session import spark_session
from kaspr_delta.spec.fixture import Changes, Expected, Outcome
from kaspr_delta.spec.fixture_files import LoadedFixture
from kaspr_delta.spec.values import Value
from kaspr_delta.testing.difference import differences
from kaspr_delta.testing.found import Fields, letters_of, records_of, result_of, rows_of
from kaspr_delta.testing.put import put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "kaspr-delta-test-"
_starting = threading.Lock()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a fixture: how its outcome differs, by resource, and the seconds that it took."""

    fixture: LoadedFixture
    differences: Mapping[str, Sequence[str]]
    seconds: float

    def __str__(self) -> str:
        """The differences, one a line below each resource."""
        return "\n".join(line for name, some in self.differences.items() for line in (name, *(f"  {d}" for d in some)))


def session() -> SparkSession:
    """The Spark session of this process. The first call starts it."""
    with _starting:
        return spark_session(_log())


def on_shared(starting: Starting | None) -> Starting:
    """The function that starts Spark for one application: a session of its own on the one of this process."""

    def start(_: object, reason: str) -> SparkSession:
        return (session() if starting is None else starting(session, reason)).newSession()

    return start


@functools.cache
def _log() -> Path:
    """The log of the JVM. It stays: the error of a failed start names it."""
    return Path(tempfile.mkdtemp(prefix=_PREFIX), "spark.log")


@contextmanager
def application(
    path: str | Path,
    *,
    values: Mapping[str, Value] | None = None,
    app: str | None = None,
    starting: Starting | None = None,
) -> Iterator[Application]:
    """An application in a folder of its own, which is removed afterwards, and on a session with its own queries.

    Its topics are not bound: records for them are produced, and none are written to Kafka or to files. The first one
    that needs Spark starts it, for all; ``starting`` is as in ``Application.open``. Raises what that raises.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as warehouse:
        yield Application.open(
            path, warehouse=warehouse, app=app, values=values, bound=False, starting=on_shared(starting)
        )


def run(
    fixture: LoadedFixture,
    *,
    values: Mapping[str, Value] | None = None,
    app: str | None = None,
    starting: Starting | None = None,
) -> Result:
    """Run a fixture. An error of the application, or of its manifests, is a difference."""
    started = time.monotonic()
    try:
        with application(fixture.folder, values=values, app=app, starting=starting) as opened:
            found = _Run(opened, fixture).differences()
    except KasprError as error:
        found = {"the run": str(error).splitlines()}
    return Result(fixture, found, time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _Run:
    application: Application
    fixture: LoadedFixture

    def differences(self) -> dict[str, list[str]]:
        """The differences by resource. Raises KasprError."""
        spec, waiting = self.fixture.spec, self.application.plan.waiting
        if waiting:  # they would only seem to do nothing
            return {str(ref): [in_words(reason)] for ref, reason in waiting}
        for name in (*spec.then.tables, *spec.given.tables, *(spec.when or Changes()).tables):
            self.application.table(name)
        for name in spec.then.joins:
            self.application.join(name)
        self._put(spec.given)
        before = self._numbers(spec.then) if spec.when is not None else {}
        if spec.when is not None:
            self._put(spec.when)
        found = dict(self._compared(spec.then, before))
        return {name: some for name, some in found.items() if some}

    def _put(self, changes: Changes) -> None:
        """Put rows and records in, and run until quiet."""
        put(self.application, changes, self.fixture.folder)
        self.application.run()
        if changes.tasks:
            self.application.run(only=[f"task/{name}" for name in changes.tasks])
            self.application.run()

    def _numbers(self, then: Outcome) -> dict[str, int]:
        """The numbers of records that are there, by topic or join."""
        streams = {f"join/{name}": name for name in then.joins if self._is_stream(name)}
        topics = {f"topic/{name}": len(self._records(name)) for name in then.topics}
        return topics | {label: len(self._result(name)) for label, name in streams.items()}

    def _compared(self, then: Outcome, before: Mapping[str, int]) -> Iterator[tuple[str, list[str]]]:
        for name, rows in then.tables.items():
            yield f"table/{name}", list(differences(_written(rows), rows_of(self.application.table(name).rows())))
        for name, rows in then.joins.items():
            label = f"join/{name}"
            yield label, list(differences(_written(rows), self._result(name)[before.get(label, 0) :]))
        for name, records in then.topics.items():
            label = f"topic/{name}"
            new = self._records(name, must_exist=bool(records) or not self._names_topics)[before.get(label, 0) :]
            yield label, list(differences(_written(records), new))
        expected = [one.model_dump(exclude_unset=True) for one in then.dead_letters]
        yield "dead letters", list(differences(expected, letters_of(self.application)))

    @property
    def _names_topics(self) -> bool:
        """Whether functions name topics, which do not exist before their first records."""
        return self.application.plan.names_topics

    def _is_stream(self, join: str) -> bool:
        return isinstance(self.application.join(join), StreamJoinHandle)

    def _result(self, join: str) -> list[Fields]:
        return result_of(self.application, join)

    def _records(self, topic: str, *, must_exist: bool = False) -> list[Fields]:
        """The records of a topic. One that functions name does not exist before its first record."""
        try:
            return records_of(self.application, topic)
        except NotFoundError:
            if must_exist:
                raise
            return []


def _written(expected: Iterable[Expected]) -> list[Fields]:
    """The fields that are compared: those that are written, and the value."""
    return [{**one.model_dump(exclude_unset=True), "value": one.value} for one in expected]
