"""The throw-away tables and files on which a warehouse is probed. Their names are the same in each run.

So a later run removes those of a run that was killed. Two runs at once exclude each other (``examination``).
"""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from kaspr_delta.errors import SetupError
from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.folders import LocalFolder
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCRATCH = "_kaspr_doctor"
"""The folder of throw-away files."""
# The first one is where results are, the second one where tables are that only the engine reads.
ROWS, LOG = "kaspr_doctor_rows", "_kaspr_doctor_log"
VIEW = "kaspr_doctor_view"
_COLUMNS = "key STRING, value STRING"
LAYOUTS = {
    ROWS: Layout(_COLUMNS, change_feed=True),
    LOG: Layout(_COLUMNS, change_feed=True, only_appended=True),
}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a batch of a stream found out where it ran.

    ``temporary``: it saw a file in the temporary folder of the run. ``spilled``: the error of Spark reading a file that
    the batch wrote beside the checkpoints, or nothing. ``lease``: the longest time between two renewals of a lease that
    the batch saw; None if it saw too few.
    """

    rows: int
    host: str
    pid: int
    temporary: bool
    spilled: str
    lease: float | None


@dataclass
class Bench:
    """A warehouse that is probed.

    ``patience`` is the number of seconds to wait for anything that should happen, ``every`` that between two renewals
    of a lease that is watched.
    """

    spark: SparkSession
    delta: Tables
    patience: float = 30
    every: float = 0.5
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    # The facts of the stream that the probe ``stream`` ran.
    facts: Facts | None = None

    @property
    def folder(self) -> Path:
        """The folder of throw-away files, beside the checkpoints. Raises SetupError if this machine cannot reach it."""
        namespace = self.delta.namespace
        if not namespace.reaches_checkpoints:
            raise SetupError(f"{namespace.checkpoints} is reached by Databricks compute only, not from here")
        if not isinstance(namespace.checkpoints, LocalFolder):
            raise SetupError(f"{namespace.checkpoints} is in a bucket, whose files are not probed")
        return namespace.checkpoints.path / SCRATCH

    @property
    def marks(self) -> Path:
        """The folder in which two doctors leave marks for one another. Raises SetupError as ``folder``."""
        return self.folder.with_name(f"{SCRATCH}_marks")

    @property
    def seen_in_batch(self) -> Facts:
        """The facts of the stream's batch. Raises SetupError if there was none."""
        if self.facts is None:
            raise SetupError("no batch of a stream ran, see the probe `stream`")
        return self.facts

    def append(self, table: str, **values: str) -> None:
        """Append rows, given the values by key."""
        self.delta.append(self.spark, rows_of(values), table)

    def newest(self, table: str) -> int:
        """The newest version of a table."""
        return self.delta.newest(self.spark, table).version

    def stored(self, table: str, version: int | None = None) -> dict[str, str]:
        """The values of a table by key."""
        rows = collected(self.delta.read(self.spark, table, version)).to_pylist()
        return {row["key"]: row["value"] for row in rows}

    def changes(self, table: str, version: int) -> list[tuple[str, str, str]]:
        """The change feed of one version: kind of change, key and value."""
        found = collected(self.delta.changes(self.spark, table, version, version)).to_pylist()
        return sorted((row["_change_type"], row["key"], row["value"]) for row in found)

    def clear(self) -> str:
        """Remove all throw-away tables and files. Raises the first error, after all were tried."""
        with contextlib.ExitStack() as last:
            if self.delta.namespace.reaches_checkpoints:
                last.callback(lambda: shutil.rmtree(self.folder) if self.folder.exists() else None)
            for table in LAYOUTS:
                last.callback(self.delta.drop, self.spark, table)
            last.callback(self.delta.drop_view, self.spark, VIEW)
        namespace = self.delta.namespace
        places = [namespace.declared_location(table) for table in LAYOUTS] if namespace.on_databricks else []
        left = ", ".join(place for place in places if place is not None)
        return f"removed, but for the files of external tables: {left}" if left else "removed"


def rows_of(values: dict[str, str], **further: list[bool]) -> pa.Table:
    """Rows for the throw-away tables."""
    return pa.table({"key": pa.array(values, pa.string()), "value": pa.array(values.values(), pa.string()), **further})


def frame_rows(frame: pa.Table | DataFrame) -> list[dict[str, str]]:
    """The rows of a table on the driver or of a DataFrame."""
    found: list[dict[str, str]] = (frame if isinstance(frame, pa.Table) else collected(frame)).to_pylist()
    return found


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result of some work, and its seconds."""
    started = time.monotonic()
    return work(), time.monotonic() - started


def in_words(seconds: float) -> str:
    """A length of time as text.

    >>> in_words(0.0421), in_words(12.34)
    ('42 ms', '12.3 s')
    """
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
