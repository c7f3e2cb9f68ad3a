"""What steps are done with: Spark, an application and the tables of others. It lives in the child."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import httpx

from kaspr_delta import AlreadyRunningError, Application
from tests.chaos.clock import Clock
from tests.chaos.following import Following
from tests.chaos.others import Others
from tests.chaos.recipe import Recipe
from tests.chaos.wrong import WrongError
from tests.serving import served_by_uvicorn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Quiet = Literal["no", "yes", "soon"]
"""Whether all that was written has come through; ``soon``: it will, for the application runs without end."""


class World(Others):
    """One application on one warehouse, and who else is there."""

    def __init__(self, spark: SparkSession, clock: Clock, recipe: Recipe, warehouse: Path) -> None:
        super().__init__(spark, warehouse)
        self.clock, self.recipe = clock, recipe
        self.quiet: Quiet = "no"
        self._columns_differ = False
        self._following = Following()
        self._serving = contextlib.ExitStack()
        self._client: httpx.Client | None = None
        clock.set(self.noted.get("clock", 0))
        for source in recipe.sources:
            if source.is_foreign:
                self.make(source)
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
        return self._following.goes_on

    def follow(self) -> None:
        """Let the application run without end, if anything in it runs. Raises what it failed with."""
        if not self.follows and any(shape.runs for shape in self.recipe.shapes):
            if self._columns_differ:
                self.open()
            self._following.begin(self.app)

    def stop_following(self) -> None:
        """Let it end. Raises what it failed with."""
        self._following.end()

    def _refused(self, work: Callable[[], object]) -> str:
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
