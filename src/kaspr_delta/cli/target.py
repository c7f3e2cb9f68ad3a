"""The warehouse and the application that a command is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kaspr_delta.cli.interruption import off_main_thread
from kaspr_delta.cli.progress import announced
from kaspr_delta.settings import warehouse_location
from kaspr_delta.storage.namespace import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.application import Application


@dataclass(frozen=True, slots=True)
class Target:
    """The values of ``--warehouse`` and ``--app``, given after the command's name or before it."""

    warehouse: str | None = None
    app: str | None = None

    @classmethod
    def of(cls, context: typer.Context) -> Target:
        """The target that the options typed so far name."""
        before = {} if context.parent is None else context.parent.params
        return cls(*(context.params.get(name) or before.get(name) for name in ("warehouse", "app")))

    @property
    def location(self) -> Warehouse:
        """The warehouse: named, or that of the environment, or the default."""
        return Warehouse(warehouse_location(self.warehouse))

    def open(self, path: Path | None = None, origin: str = "") -> Application:
        """The application, with the manifests of an optional path. Raises what ``Application.open`` raises."""
        from kaspr_delta.application import Application

        return Application.open(
            path, warehouse=self.location.text, app=self.app, origin=origin, starting=starting_spark
        )


def starting_spark(start: Callable[[], SparkSession], reason: str) -> SparkSession:
    """Start Spark. After two seconds a line on standard error says so, and why."""
    with announced(f"Spark starts: {reason}" if reason else "Spark starts"):
        return off_main_thread(start)
