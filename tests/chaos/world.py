"""The surroundings of the steps: Spark, an application and the tables of others. Used in the child."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import httpx

from kaspr_delta import AlreadyRunningError, Application
from tests.chaos.clock import Clock
from tests.chaos.following import ContinuousRun
from tests.chaos.others import OtherUser
from tests.chaos.recipe import Recipe
from tests.chaos.wrong import WrongError
from tests.serving import served_by_uvicorn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Quiet = Literal["no", "yes", "soon"]
"""Whether everything written has been processed; ``soon``: a continuous run will process it."""


class World(OtherUser):
    """One application on one warehouse, and the tables of others beside it."""

    def __init__(self, spark: SparkSession, clock: Clock, recipe: Recipe, warehouse: Path) -> None:
        super().__init__(spark, warehouse)
        self.clock, self.recipe = clock, recipe
        self.quiet: Quiet = "no"
        self._must_reopen = False
        self._continuous_run = ContinuousRun()
        self._serving = contextlib.ExitStack()
        self._client: httpx.Client | None = None
        clock.set(self.saved_notes.get("clock", 0))
        for source in recipe.sources:
            if source.is_foreign:
                self.make(source)
        is_new = not warehouse.exists()
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
        """Stop the server and the continuous run. Raises the error that stopped the run earlier."""
        self.stop_serving()
        self.stop_continuous_run()

    def reopen_before_next_run(self) -> None:
        """Stop the continuous run and the server. The next run opens the application anew."""
        self.stop_continuous_run()
        self.stop_serving()
        self._must_reopen = True

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, *only: str) -> str | None:
        """Run all or some shapes until quiet. Returns "refused" during a continuous run, else None.

        Raises WrongError if a continuous run does not refuse it.
        """
        if self._must_reopen:
            self.open()
        refs = [self._ref(name) for name in only]
        if self.runs_continuously:
            return self._assert_refused(lambda: self.app.run(only=refs))
        self.app.run(only=refs)
        self.quiet = "no" if only else "yes"
        return None

    def rebuild(self, name: str) -> str | None:
        """Rebuild the state of a shape. Otherwise like ``run``."""
        if self._must_reopen:
            self.open()
        if self.runs_continuously:
            return self._assert_refused(lambda: self.app.rebuild(self._ref(name)))
        self.app.rebuild(self._ref(name))
        return None

    @property
    def runs_continuously(self) -> bool:
        """Whether a continuous run goes on. Raises the error that stopped it."""
        return self._continuous_run.is_running

    def start_continuous_run(self) -> None:
        """Start a continuous run, unless one goes on or no shape runs. Raises the error that stopped it."""
        if not self.runs_continuously and any(shape.runs for shape in self.recipe.shapes):
            if self._must_reopen:
                self.open()
            self._continuous_run.begin(self.app)

    def stop_continuous_run(self) -> None:
        """Stop the continuous run. Raises the error that stopped it earlier."""
        self._continuous_run.end()

    def _assert_refused(self, work: Callable[[], object]) -> str:
        with contextlib.suppress(AlreadyRunningError):
            work()
            raise WrongError("what runs already was not refused")
        return "refused"

    def _ref(self, name: str) -> str:
        return self.recipe.inputs.shapes[name].ref

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
