"""What steps are done with: Spark, an application and the tables of others. It lives in the child."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx

from kaspr_delta import AlreadyRunningError, Application
from tests.chaos.clock import Clock
from tests.chaos.recipe import Recipe
from tests.chaos.sources import Source
from tests.continuous import running
from tests.serving import served_by_uvicorn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Quiet = Literal["no", "yes", "soon"]
"""Whether all that was written has come through; ``soon``: it will, for the application runs without end."""

# Seconds between two looks whether a run has begun.
_LOOK = 0.1
_VACUUM_ANYTHING = "spark.databricks.delta.retentionDurationCheck.enabled"


class WrongError(Exception):
    """Something did not go as it is promised."""


class World:
    """One application on one warehouse, and who else is there."""

    def __init__(self, spark: SparkSession, clock: Clock, recipe: Recipe, warehouse: Path) -> None:
        self.spark, self.clock, self.recipe, self.warehouse = spark, clock, recipe, warehouse
        self.quiet: Quiet = "no"
        self._columns_differ = False
        self._following = contextlib.ExitStack()
        self._serving = contextlib.ExitStack()
        self._client: httpx.Client | None = None
        self._failures: list[Exception] | None = None
        clock.set(self._notes.get("clock", 0))
        for source in recipe.sources:
            if source.is_foreign and not source.folder(warehouse).exists():
                columns = ", ".join(f"{name} {kind}" for name, kind in source.types.items())
                feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
                self.sql(f"CREATE TABLE {self.table(source)} ({columns}) USING DELTA {feed}")
        is_new = not warehouse.exists()
        self.open()
        if is_new:  # what was on a topic before a join began meets rows as they are then
            self.app.run()

    @property
    def manifests(self) -> Path:
        """The file that declares the application."""
        return self.warehouse.parent / "chaos.yaml"

    def open(self) -> None:
        """Open the application anew. Raises WrongError where a resource waits, for all they need is there."""
        self.manifests.parent.mkdir(parents=True, exist_ok=True)
        self.manifests.write_text(self.recipe.manifests(self.warehouse))
        self.app = Application.open(self.manifests, warehouse=self.warehouse, spark=self.spark)
        self._columns_differ = False
        if self.app.plan.waiting:
            raise WrongError("; ".join(f"{ref} waits: {reason}" for ref, reason in self.app.plan.waiting))

    def close(self) -> None:
        """End what goes on beside the steps. Raises what it failed with."""
        self.stop_serving()
        self.stop_following()

    def columns_may_differ(self) -> None:
        """Before the next run the application is opened anew, and before the next request served anew."""
        self.stop_following()
        self.stop_serving()
        self._columns_differ = True

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, *only: str) -> str | None:
        """Run until quiet, everything or some shapes; whether that was refused. Raises WrongError if it was not."""
        if self._columns_differ:
            self.open()
        refs = [self._ref(name) for name in only]
        if self.follows:
            return self._refused(lambda: self.app.run(only=refs))
        self.app.run(only=refs)
        self.quiet = "no" if only else "yes"
        return None

    def rebuild(self, name: str) -> str | None:
        """Make the state of a shape anew; whether that was refused."""
        if self._columns_differ:
            self.open()
        if self.follows:
            return self._refused(lambda: self.app.rebuild(self._ref(name)))
        self.app.rebuild(self._ref(name))
        return None

    @property
    def follows(self) -> bool:
        """Whether the application runs without end. Raises what it failed with."""
        self._tell_failure()
        return self._failures is not None

    def follow(self) -> None:
        """Let the application run without end, if anything in it runs. Raises what it failed with."""
        if self.follows or not any(shape.runs for shape in self.recipe.shapes):
            return
        if self._columns_differ:
            self.open()
        started = threading.Event()
        self._failures = self._following.enter_context(running(self.app, listener=lambda _: started.set()))
        while not started.wait(_LOOK):  # until its resources are held
            self._tell_failure()

    def stop_following(self) -> None:
        """Let it end. Raises what it failed with."""
        self._following.close()
        if self.follows:
            self._failures = None

    def _tell_failure(self) -> None:
        if self._failures:
            failure, self._failures = self._failures[0], None
            raise failure

    def _refused(self, work: Any) -> str:
        with contextlib.suppress(AlreadyRunningError):
            work()
            raise WrongError("what runs already was not refused")
        return "refused"

    def _ref(self, name: str) -> str:
        return self.recipe.inputs.shapes[name].ref

    # -- serving ------------------------------------------------------------------------------------------------------

    def client(self) -> httpx.Client:
        """Who asks the server of the application, which is started when it is needed and goes on."""
        if self._client is None:
            self._client = self._serving.enter_context(served_by_uvicorn(self.app.web_application()))
        return self._client

    def stop_serving(self) -> None:
        """Let the server end."""
        self._serving.close()
        self._client = None

    # -- tables, as others see them -----------------------------------------------------------------------------------

    def table(self, source: Source) -> str:
        """The table in SQL."""
        return f"delta.`{source.folder(self.warehouse)}`"

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Say it; the answer."""
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
        """The oldest version that can be restored."""
        oldest: int = self._notes.get(source.name, 0)
        return oldest

    def vacuum(self, source: Source) -> None:
        """Remove all files that the newest version does not need."""
        with self._set(_VACUUM_ANYTHING, "false"):
            self.sql(f"VACUUM {self.table(source)} RETAIN 0 HOURS")
        self.note(source.name, self.version(source))

    def has_feature(self, source: Source, feature: str) -> bool:
        """Whether the table's protocol names a feature."""
        (detail,) = self.sql(f"DESCRIBE DETAIL {self.table(source)}")
        return feature in (detail["tableFeatures"] or ())

    @contextlib.contextmanager
    def _set(self, name: str, value: str) -> Iterator[None]:
        self.spark.conf.set(name, value)
        try:
            yield
        finally:
            self.spark.conf.unset(name)

    # -- what the next child has to know ------------------------------------------------------------------------------

    def note(self, name: str, value: float) -> None:
        """Write something down that outlives this process."""
        self._notebook.write_text(json.dumps(self._notes | {name: value}))

    @property
    def _notes(self) -> dict[str, Any]:
        notes: dict[str, Any] = json.loads(self._notebook.read_text()) if self._notebook.exists() else {}
        return notes

    @property
    def _notebook(self) -> Path:
        return self.warehouse.parent / "notes.json"
