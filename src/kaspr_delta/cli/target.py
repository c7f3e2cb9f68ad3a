"""The warehouse and the application that a command is for, and the values for its manifests.

Every command line has a target, also the help and the version. Models and tables are imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kaspr_delta.cli.interruption import off_main_thread
from kaspr_delta.cli.progress import announced
from kaspr_delta.errors import ManifestError, UsageError
from kaspr_delta.settings import warehouse_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaspr_delta.application import Application
    from kaspr_delta.spec.loader import LoadedManifests
    from kaspr_delta.spec.values import Value, Values
    from kaspr_delta.storage.namespace import Warehouse


@dataclass(frozen=True, slots=True)
class Target:
    """The warehouse, application and values that options name, after the command's name or before it."""

    warehouse: str | None = None
    app: str | None = None
    files: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: typer.Context) -> Target:
        """The target that the options typed so far name."""
        before = {} if context.parent is None else context.parent.params
        names = ("warehouse", "app", "values", "settings")
        warehouse, app, files, settings = (context.params.get(name) or before.get(name) for name in names)
        return cls(warehouse, app, tuple(files or ()), tuple(settings or ()))

    @property
    def location(self) -> Warehouse:
        """The warehouse: named, or that of the environment, or the default."""
        from kaspr_delta.storage.namespace import Warehouse

        return Warehouse(warehouse_location(self.warehouse))

    @property
    def given(self) -> dict[str, Value]:
        """The values of ``--values`` and ``--set`` by name. Raises ManifestError and UsageError."""
        from kaspr_delta.spec.diagnostics import has_errors
        from kaspr_delta.spec.values_file import read_values

        given: dict[str, Value] = {}
        for file in self.files:
            read, findings = read_values(Path(file), file)
            if has_errors(findings):
                raise ManifestError(findings)
            given |= read
        return {**given, **self._set}

    @property
    def _set(self) -> Mapping[str, Value]:
        from kaspr_delta.spec.values import NAME

        found: dict[str, Value] = {}
        for text in self.settings:
            name, sign, value = text.partition("=")
            if not sign or not NAME.fullmatch(name):
                raise UsageError(f"--set {text!r}: expected NAME=VALUE, as in --set region=eu")
            found[name] = value
        return found

    @property
    def values(self) -> Values:
        """The values for manifests. Raises ManifestError and UsageError."""
        from kaspr_delta.spec.values import Values

        return Values(self.given, warehouse=self.location.folder)

    def load(self, path: Path) -> LoadedManifests:
        """The manifests of a path. A value of ``--set`` that they do not use is a warning."""
        from kaspr_delta.spec.loader import LoadedManifests, load_path, together
        from kaspr_delta.spec.values import unused

        loaded = load_path(path, values=self.values)
        return together([loaded, LoadedManifests((), tuple(unused(self._set, loaded.values)))])

    def open(
        self,
        path: Path | None = None,
        origin: str = "",
        revision: str = "",
        *,
        apply: bool = True,
        trusting: bool = False,
    ) -> Application:
        """The application, with the manifests of an optional path. Raises what ``Application.open`` raises."""
        from kaspr_delta.application import Application

        return Application.open(
            path,
            warehouse=self.location.text,
            app=self.app,
            origin=origin,
            revision=revision,
            apply=apply,
            starting=starting_spark,
            values=self.given,
            trusting=trusting,
        )


def starting_spark(start: Callable[[], SparkSession], reason: str) -> SparkSession:
    """Start Spark. After two seconds a line on standard error says so, and why."""
    with announced(f"Spark starts: {reason}" if reason else "Spark starts"):
        return off_main_thread(start)
