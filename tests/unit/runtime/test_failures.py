from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaspr_delta.errors import RebuildNeededError, ResourceFailedError, SetupError
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.failures import Failures, disk_errors_explained, short_text

CAUSE = "CSV header does not conform to the schema.\nCSV file: file:///data/rows/wrong.csv"
AWAITED = f"""An error occurred while calling o821.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2872)
Caused by: java.lang.IllegalArgumentException: {CAUSE}
\tat org.apache.spark.sql.catalyst.csv.CSVHeaderChecker.checkHeaderColumnNames(CSVHeaderChecker.scala:97)
\t... 1 more
"""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no\n\tat a.b.C(D.java:1)"), "ValueError: no"),
        (RuntimeError(AWAITED), f"RuntimeError: java.lang.IllegalArgumentException: {CAUSE}"),
        (RebuildNeededError("join/j", "a table is gone"), str(RebuildNeededError("join/j", "a table is gone"))),
    ],
)
def test_a_failure_is_shown_without_stacks_by_its_cause_and_one_of_this_package_without_its_class(
    error: Exception, text: str
) -> None:
    assert short_text(error) == text


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


def test_a_disk_error_outside_of_resources_is_explained_and_another_error_is_unchanged() -> None:
    with (
        pytest.raises(SetupError, match="the disk of /wh is full: free space, then run again"),
        disk_errors_explained(_failed_run().runner.delta),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "/wh/shop/j")
    with pytest.raises(ZeroDivisionError), disk_errors_explained(_failed_run().runner.delta):
        raise ZeroDivisionError


def test_a_failure_is_kept_with_the_places_at_which_it_was_raised() -> None:
    failures = Failures({})
    agent, join = ResourceRef("agent", "a"), ResourceRef("join", "j")
    with failures.noting(agent):
        int("no price")
    failures.note(join, RebuildNeededError("join/j", "changes are gone"))
    assert list(failures.accounts) == [agent]
    first, *places = failures.accounts[agent].splitlines()
    assert first == "ValueError: invalid literal for int() with base 10: 'no price'"
    assert any("test_failures.py" in line for line in places)
