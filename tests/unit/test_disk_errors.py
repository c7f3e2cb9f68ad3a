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


FULL_THERE = FULL_IN_DELTA_RS.replace("to file:", "to file /data/wh/a.parquet:")
READ_ONLY = OSError(errno.EROFS, os.strerror(errno.EROFS), "/wh/a")
CAUSED, SUPPRESSED = RuntimeError("the batch failed"), RuntimeError("the batch failed")
CAUSED.__cause__ = READ_ONLY
SUPPRESSED.__context__, SUPPRESSED.__suppress_context__ = READ_ONLY, True


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError(FULL_IN_SPARK), "the disk of /data/wh is full: free space, then run again; nothing that was"),
        (RuntimeError(FULL_THERE), "the disk of /data/wh is full: free space, then run again; nothing that was"),
        (OSError(errno.ENOSPC, "No space left", "/exported/rows.csv"), "the disk of /exported/rows.csv is full"),
        (READ_ONLY, "/wh/a cannot be written: its disk is read-only. Make it writable"),
        (OSError(errno.EACCES, "no", "/wh/a"), "/wh/a cannot be used: permission is denied. Change its permissions"),
        (OSError(errno.EPERM, "no", "/wh/a"), "/wh/a cannot be used: permission is denied. Change its permissions"),
        (CAUSED, "/wh/a cannot be written"),
        (SUPPRESSED, "None"),
        (ValueError("no"), "None"),
        (RuntimeError("Permission denied: the user may not see this job"), "None"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/a"), "None"),
        (FileExistsError("/a"), "None"),
    ],
)
def test_an_error_of_a_disk_or_its_cause_is_a_sentence_with_the_path_and_the_remedy(
    error: Exception, sentence: str
) -> None:
    assert str(disk_problem(error, Path("/data/wh"))).startswith(sentence)


@pytest.mark.parametrize("text", [FULL_IN_DELTA_RS, FULL_IN_SPARK])
def test_a_full_disk_without_a_certain_path_is_the_one_with_least_space(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The path in Spark's message may be a file that was read."""
    small, large = Path("/small"), Path("/large")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(small))
    monkeypatch.setattr("kaspr_delta.disk_errors.free_bytes", lambda place: 1 if place == small else 2)
    assert "the disk of /small is full" in str(disk_problem(RuntimeError(text), large))


@pytest.mark.parametrize("below", ["", "warehouse/locks"])
def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / below
    with pytest.raises(OSError, match="file") as raised:
        folder.mkdir(parents=True, exist_ok=True)
    problem = str(disk_problem(raised.value))
    assert f"{folder} cannot be used: {tmp_path / 'file'} is a file where a folder is needed" in problem
