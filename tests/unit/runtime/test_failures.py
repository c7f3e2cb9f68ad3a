from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaspr_delta.errors import RebuildNeededError, ResourceFailedError, SetupError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.failures import Failures, disk_errors_explained, short_text

AWAITED = """An error occurred while calling o821.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2872)
Caused by: java.lang.IllegalArgumentException: CSV header does not conform to the schema.
CSV file: file:///data/rows/wrong.csv
\tat org.apache.spark.sql.catalyst.csv.CSVHeaderChecker.checkHeaderColumnNames(CSVHeaderChecker.scala:97)
\t... 1 more
"""


def test_a_failure_is_shown_without_the_stack() -> None:
    assert short_text(ValueError("no\n\tat a.b.C(D.java:1)")) == "ValueError: no"


def test_a_failure_in_another_thread_is_shown_by_its_cause() -> None:
    message = short_text(RuntimeError(AWAITED))
    assert message.endswith("CSV header does not conform to the schema.\nCSV file: file:///data/rows/wrong.csv")
    assert "awaitResult" not in message


def test_an_error_of_this_package_is_shown_without_its_class() -> None:
    assert short_text(RebuildNeededError("join/j", "a table is gone")).startswith(
        "join/j cannot go on: a table is gone."
    )


def _failed_run(failure: Exception | None = None) -> Any:
    """A fake run that failed: the disk of its tables, the error of its batch, and its recovery's account."""
    namespace = SimpleNamespace(disk=Path("/wh"))
    feed_ended = RebuildNeededError("join/j", "changes are gone")
    runner = SimpleNamespace(delta=SimpleNamespace(namespace=namespace), failure=failure)
    return SimpleNamespace(runner=runner, recovery=SimpleNamespace(account_of=lambda _: failure or feed_ended))


def test_resources_that_a_full_disk_stopped_share_one_sentence() -> None:
    """One disk error is in Spark's text; the other is the error of the batch, which Spark's text omits."""
    join, agent = ResourceRef("join", "j"), ResourceRef("agent", "a")
    full = OSError(errno.ENOSPC, "No space left on device", "/wh/shop/j")
    failures = Failures({join: _failed_run(), agent: _failed_run(failure=full)})
    failures.note(join, RuntimeError("FileNotFoundException, after file:/wh/shop/j: No space left on device"))
    failures.note(agent, RuntimeError("the stream failed"))
    with pytest.raises(ResourceFailedError) as raised:
        failures.tell()
    message = "the disk of /wh is full: free space, then run again; nothing that was committed is lost"
    assert str(raised.value) == f"join/j, agent/a failed: {message}"


def test_a_full_disk_outside_of_resources_is_explained_in_the_same_way() -> None:
    with (
        pytest.raises(SetupError, match="the disk of /wh is full: free space, then run again"),
        disk_errors_explained(_failed_run().runner.delta),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "/wh/shop/j")


def test_an_error_without_a_disk_problem_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), disk_errors_explained(_failed_run().runner.delta):
        raise ZeroDivisionError
