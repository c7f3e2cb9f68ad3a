from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kaspr_delta.disk_errors import disk_problem

FULL_IN_SPARK = (
    "An error occurred while calling o250.sql.\n: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed"
    " while writing rows to file:/data/wh/shop/orders. SQLSTATE: 58030\n\tat a.b.C(D.java:1)\nCaused by:"
    " java.io.IOException: No space left on device"
)
FULL_IN_DELTA_RS = (
    "Failed to parse parquet: External: Generic LocalFileSystem error: Unable to copy data to file: No space left on"
    " device (os error 28)"
)


@pytest.mark.parametrize("text", [FULL_IN_SPARK, FULL_IN_DELTA_RS.replace("to file:", "to file /data/wh/a.parquet:")])
def test_a_full_disk_in_an_error_of_spark_or_delta_rs_names_the_warehouse(text: str) -> None:
    problem = disk_problem(RuntimeError(text), Path("/data/wh"))
    assert problem == "the disk of /data/wh is full: free space, then run again; nothing that was committed is lost"


def test_a_full_disk_outside_the_warehouse_is_named_by_the_path() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/exported/rows.csv")
    assert "the disk of /exported/rows.csv is full" in str(disk_problem(full, Path("/data/wh")))


@pytest.mark.parametrize("text", [FULL_IN_DELTA_RS, FULL_IN_SPARK])
def test_a_full_disk_without_a_certain_path_is_the_one_with_least_space(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The path in Spark's message may be a file that was read."""
    small, large = Path("/small"), Path("/large")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(small))
    monkeypatch.setattr("kaspr_delta.disk_errors.free_bytes", lambda place: 1 if place == small else 2)
    assert "the disk of /small is full" in str(disk_problem(RuntimeError(text), large))


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.EROFS, "/wh/a cannot be written: its disk is read-only. Make it writable"),
        (errno.EACCES, "/wh/a cannot be used: permission is denied. Change its permissions"),
        (errno.EPERM, "/wh/a cannot be used: permission is denied. Change its permissions"),
    ],
)
def test_a_path_that_cannot_be_used_is_named_with_the_remedy(number: int, sentence: str) -> None:
    assert sentence in str(disk_problem(OSError(number, os.strerror(number), "/wh/a")))


@pytest.mark.parametrize("below", ["", "warehouse/locks"])
def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / below
    with pytest.raises(OSError, match="file") as raised:
        folder.mkdir(parents=True, exist_ok=True)
    problem = str(disk_problem(raised.value))
    assert f"{folder} cannot be used: {tmp_path / 'file'} is a file where a folder is needed" in problem


def test_the_cause_of_an_error_is_examined() -> None:
    error = RuntimeError("the batch failed")
    error.__cause__ = OSError(errno.EROFS, "Read-only file system", "/wh/a")
    assert "/wh/a cannot be written" in str(disk_problem(error))


def test_a_suppressed_context_of_an_error_is_ignored() -> None:
    error = RuntimeError("the batch failed")
    error.__context__, error.__suppress_context__ = OSError(errno.EROFS, "Read-only file system", "/wh/a"), True
    assert disk_problem(error) is None


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        RuntimeError("Permission denied: the user may not see this job"),
        FileNotFoundError(errno.ENOENT, "No such file", "/a"),
        FileExistsError("/a"),
    ],
)
def test_other_errors_are_no_problem_of_a_disk(error: Exception) -> None:
    assert disk_problem(error) is None
