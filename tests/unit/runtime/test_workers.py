from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kaspr_delta.errors import SetupError
from kaspr_delta.runtime.versions import installed
from kaspr_delta.runtime.workers import check_workers

_ONE_TASK = pa.RecordBatch.from_pydict({"id": [0]})


class Workers:
    """A session whose workers run a function as given."""

    def __init__(self, answer: Callable[[Any], pa.Table]) -> None:
        self.answer, self.stopped = answer, threading.Event()

    def range(self, *_: int) -> Workers:
        return self

    def mapInArrow(self, function: Any, _: str) -> Workers:  # noqa: N802  Spark's name
        self.function = function
        return self

    def distinct(self) -> Workers:
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802  Spark's name
        return self.answer(self.function)

    def stop(self) -> None:
        self.stopped.set()


def run(function: Any) -> pa.Table:
    """The answer of a worker of this machine."""
    return pa.Table.from_batches(list(function(iter([_ONE_TASK]))))


def check(workers: Workers, folder: Path | None = None, patience: float = 10.0) -> None:
    check_workers(cast("SparkSession", workers), folder, patience)


def test_workers_with_the_same_package_that_see_the_folder_may_work(tmp_path: Path) -> None:
    check(Workers(run), tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    check(Workers(run))


def test_a_worker_that_does_not_see_the_folder_is_named(tmp_path: Path) -> None:
    def elsewhere(function: Any) -> pa.Table:
        Path(function.file).unlink()
        return run(function)

    with pytest.raises(SetupError, match=rf"^the worker .* does not see the folder {tmp_path}: .* in a bucket"):
        check(Workers(elsewhere), tmp_path)


def test_a_worker_with_another_version_is_named() -> None:
    def older(function: Any) -> pa.Table:
        row = run(function).to_pylist()[0]
        return pa.Table.from_pylist([row | {"host": "w1", "version": "0.0.1"}])

    mine = installed("kaspr-delta")
    with pytest.raises(SetupError, match=rf"^the worker w1 has kaspr-delta 0\.0\.1, this machine {mine}: give the"):
        check(Workers(older))


def test_a_python_without_the_package_is_told_with_its_error() -> None:
    def fails(_: Any) -> pa.Table:
        raise PySparkException(
            "Job aborted\n  File \"worker.py\", line 1\nModuleNotFoundError: No module named 'kaspr_delta'\n"
        )

    with pytest.raises(SetupError, match=r"cannot run Python functions \(ModuleNotFoundError: No module named 'kaspr_"):
        check(Workers(fails))


def test_workers_that_do_not_come_end_the_wait_and_spark() -> None:
    def waits(_: Any) -> pa.Table:
        assert workers.stopped.wait(10)
        raise PySparkException("stopped")

    workers = Workers(waits)
    with pytest.raises(SetupError, match=r"^no worker of the cluster ran a task within 0 s: none is there"):
        check(workers, patience=0.1)
