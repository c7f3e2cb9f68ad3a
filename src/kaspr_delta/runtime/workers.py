"""Whether the workers of a cluster can do the work of an application, asked when its Spark starts."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLongError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kaspr_delta.errors import SetupError, first_line
from kaspr_delta.runtime.versions import installed
from kaspr_delta.storage.arrow_types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = "kaspr-delta"
# More tasks than a small cluster has cores, so that each worker gets one.
_TASKS = 16
_SEEN = "host STRING, version STRING, sees_folder BOOLEAN"
_REMEDY = "give the workers an environment with the package, by spark.archives and PYSPARK_PYTHON"


@dataclass(frozen=True, slots=True)
class _Look:
    """The function of a task: the host, its version of this package, and whether a file is there."""

    file: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            there = self.file is None or Path(self.file).exists()
            row = {"host": platform.node(), "version": installed(_PACKAGE), "sees_folder": there}
            yield pa.RecordBatch.from_pylist([row], arrow_schema(_SEEN))


def check_workers(spark: SparkSession, folder: Path | None = None, patience: float = 120.0) -> None:
    """Run a few tasks on the workers of a cluster.

    Raises SetupError if no worker runs them within ``patience`` seconds, if Python there cannot import this package or
    has another version of it, or if a worker does not see the ``folder`` of the warehouse.
    """
    with _file_in(folder) as file:
        for host, version, sees_folder in _answers(spark, _Look(file), patience):
            if version != installed(_PACKAGE):
                mine = installed(_PACKAGE)
                raise SetupError(f"the worker {host} has {_PACKAGE} {version}, this machine {mine}: {_REMEDY}")
            if not sees_folder:
                raise SetupError(
                    f"the worker {host} does not see the folder {folder}: with a cluster a warehouse is in a bucket, or"
                    " in a folder that every machine has under the same path"
                )


def _answers(spark: SparkSession, look: _Look, patience: float) -> list[tuple[str, str | None, bool]]:
    """The different answers of the workers."""
    from pyspark.errors import PySparkException

    def asked() -> pa.Table:
        return spark.range(0, _TASKS, 1, _TASKS).mapInArrow(look, _SEEN).distinct().toArrow()

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(asked)
        try:
            rows = waiting.result(patience).to_pylist()
        except TookTooLongError:
            spark.stop()  # ends the job, and with it the thread
            raise SetupError(
                f"no worker of the cluster ran a task within {patience:.0f} s: none is there, or none has the memory"
                " and the cores that spark.executor.memory and spark.executor.cores ask for"
            ) from None
        except PySparkException as error:
            raise SetupError(f"the workers cannot run Python functions ({_reason(error)}): {_REMEDY}") from error
    return [(row["host"], row["version"], row["sees_folder"]) for row in rows]


def _reason(error: Exception) -> str:
    """The line of an error that says most: that of a Python exception on the worker, else the first one."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if "Error: " in line and not line.startswith("File ")), first_line(error))


@contextmanager
def _file_in(folder: Path | None) -> Iterator[str | None]:
    """A file in a folder, which is removed afterwards."""
    if folder is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f".workers-{uuid.uuid4().hex}"
    file.touch()
    try:
        yield str(file)
    finally:
        file.unlink(missing_ok=True)
