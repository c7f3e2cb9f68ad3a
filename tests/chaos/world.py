"""The surroundings of the steps: Spark, an application and the tables of others. Used in the child."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import httpx
import time_machine
from pyspark.sql import SparkSession

from kaspr_delta import AlreadyRunningError, Application
from tests.chaos.shapes.shape import Recipe
from tests.chaos.sources import Source
from tests.continuous import running
from tests.serving import served_by_uvicorn

Quiet = Literal["no", "yes", "soon"]
"""Whether everything written has been processed; ``soon``: a continuous run will process it."""

# Seconds between two checks whether a continuous run has failed before its first event.
_POLL_SECONDS = 0.1
_VACUUM_ANYTHING = "spark.databricks.delta.retentionDurationCheck.enabled"


class WrongError(Exception):
    """The application did not do what its documentation promises."""


class World:
    """One application on one warehouse, and the tables of others beside it, which Spark uses without this package."""

    def __init__(self, spark: SparkSession, recipe: Recipe, warehouse: Path) -> None:
        self.spark, self.recipe, self.warehouse = spark, recipe, warehouse
        self.quiet: Quiet = "no"
        self._must_reopen = False
        self._clock, self._continuous_run, self._serving = (contextlib.ExitStack() for _ in range(3))
        self._failures: list[Exception] | None = None
        self._client: httpx.Client | None = None

    def start(self) -> None:
        """Set the clock, create tables of others, and open the application. In a new warehouse it runs once."""
        self.set_clock()
        for source in self.recipe.sources.values():
            if source.is_foreign and not source.folder(self.warehouse).exists():
                columns = ", ".join(f"{name} {kind}" for name, kind in source.types.items())
                feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
                self.sql(f"CREATE TABLE {self.table(source)} ({columns}) USING DELTA {feed}")
        is_new = not self.warehouse.exists()
        self.open()
        if is_new:  # starts the joins: older records would meet the rows of a join's start
            self.app.run()

    @property
    def manifests(self) -> Path:
        """The file that declares the application."""
        return self.warehouse.parent / "chaos.yaml"

    def open(self) -> None:
        """Open the application anew. Raises WrongError if a resource waits, since all tables and topics exist."""
        self.manifests.parent.mkdir(parents=True, exist_ok=True)
        self.manifests.write_text(self.recipe.manifests(self.warehouse))
        self.app = Application.open(self.manifests, warehouse=self.warehouse, spark=self.spark)
        self._must_reopen = False
        if self.app.plan.waiting:
            raise WrongError("; ".join(f"{ref} waits: {reason}" for ref, reason in self.app.plan.waiting))

    def close(self) -> None:
        """Reset the clock, stop the server and the continuous run. Raises the error that stopped the run earlier."""
        self._clock.close()
        self.stop_serving()
        self.stop_continuous_run()

    def reopen_before_next_run(self) -> None:
        """Stop the continuous run and the server. The next run opens the application anew."""
        self.stop_continuous_run()
        self.stop_serving()
        self._must_reopen = True

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, *only: str) -> str | None:
        """Run all or some resources until quiet. Returns "refused" during a continuous run, else None.

        Raises WrongError if a continuous run does not refuse it.
        """
        refused = self._run(lambda: self.app.run(only=only))
        if refused is None:
            self.quiet = "no" if only else "yes"
        return refused

    def rebuild(self, ref: str) -> str | None:
        """Rebuild the state of a resource. Otherwise like ``run``."""
        return self._run(lambda: self.app.rebuild(ref))

    def _run(self, work: Callable[[], object]) -> str | None:
        if self._must_reopen:
            self.open()
        if not self.runs_continuously():
            work()
            return None
        with contextlib.suppress(AlreadyRunningError):
            work()
            raise WrongError("what runs already was not refused")
        return "refused"

    def runs_continuously(self) -> bool:
        """Whether a continuous run goes on. Raises the error that stopped it."""
        if self._failures:
            failure, self._failures = self._failures[0], None
            raise failure
        return self._failures is not None

    def start_continuous_run(self) -> None:
        """Start a continuous run, unless one goes on or no shape runs, and wait until it holds its resources.

        Raises the error that stopped it.
        """
        if not self.runs_continuously() and any(shape.runs for shape in self.recipe.shapes.values()):
            if self._must_reopen:
                self.open()
            started = threading.Event()
            run = running(self.app, listener=lambda _: started.set())
            self._failures = self._continuous_run.enter_context(run)
            while self.runs_continuously() and not started.wait(_POLL_SECONDS):
                pass

    def stop_continuous_run(self) -> None:
        """Stop the continuous run. Raises the error that stopped it earlier."""
        self._continuous_run.close()
        if self.runs_continuously():
            self._failures = None

    # -- serving ------------------------------------------------------------------------------------------------------

    def client(self) -> httpx.Client:
        """A client of the application's server. The first call starts the server, which keeps running."""
        if self._client is None:
            self._client = self._serving.enter_context(served_by_uvicorn(self.app.web_application()))
        return self._client

    def stop_serving(self) -> None:
        """Stop the server."""
        self._serving.close()
        self._client = None

    # -- tables of sources --------------------------------------------------------------------------------------------

    def table(self, source: Source) -> str:
        """The name of the table in SQL."""
        return f"delta.`{source.folder(self.warehouse)}`"

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement. The rows of its result."""
        return [row.asDict(recursive=True) for row in self.spark.sql(statement).collect()]

    def rows(self, folder: Path) -> list[dict[str, Any]]:
        """All rows of a table."""
        rows: list[dict[str, Any]] = self.spark.read.format("delta").load(str(folder)).toArrow().to_pylist()
        return rows

    def version(self, source: Source) -> int:
        """The newest version."""
        (newest,) = self.sql(f"DESCRIBE HISTORY {self.table(source)} LIMIT 1")
        return int(newest["version"])

    def oldest(self, source: Source) -> int:
        """The oldest version that may be restored: the one after the last vacuum or change of columns."""
        return int(self._notes.get(source.name, 0))

    def vacuum(self, source: Source) -> None:
        """Remove all files that the newest version does not need."""
        self.spark.conf.set(_VACUUM_ANYTHING, "false")
        try:
            self.sql(f"VACUUM {self.table(source)} RETAIN 0 HOURS")
        finally:
            self.spark.conf.unset(_VACUUM_ANYTHING)
        self.note_version(source)

    def has_feature(self, source: Source, feature: str) -> bool:
        """Whether the table's protocol names a feature."""
        (detail,) = self.sql(f"DESCRIBE DETAIL {self.table(source)}")
        return feature in (detail["tableFeatures"] or ())

    # -- notes for the next process -----------------------------------------------------------------------------------

    def note_version(self, source: Source) -> None:
        """Note that no version before the newest one may be restored."""
        self._note(source.name, self.version(source))

    def move_clock(self, seconds: float) -> None:
        """Move the clock of this process and of those after it: that of Python's ``time`` and ``datetime``.

        The clocks of the JVM, of delta-rs and of Spark's Python workers are not moved.
        """
        self._note("clock", self._notes.get("clock", 0) + seconds)
        self.set_clock()

    def set_clock(self) -> None:
        """Set the clock ahead by as many seconds as the notes say."""
        self._clock.close()
        self._clock.enter_context(time_machine.travel(time.time() + self._notes.get("clock", 0)))

    def _note(self, name: str, value: float) -> None:
        self._notebook.write_text(json.dumps(self._notes | {name: value}))

    @property
    def _notes(self) -> dict[str, Any]:
        notes: dict[str, Any] = json.loads(self._notebook.read_text()) if self._notebook.exists() else {}
        return notes

    @property
    def _notebook(self) -> Path:
        return self.warehouse.parent / "notes.json"
