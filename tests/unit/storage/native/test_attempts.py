"""The operations that delta-rs supports on a table, and the handling of failed ones."""

from __future__ import annotations

import json
import logging

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.native.attempts import Attempts
from kaspr_delta.storage.native.delta_rs import DeltaRs, append_to, selected
from kaspr_delta.storage.native.log_files import commit_file
from kaspr_delta.storage.native.supports import Operation
from kaspr_delta.storage.statistics import NativeFailure, Statistics
from tests.folders import folder_of

OPERATIONS: tuple[Operation, ...] = ("scan", "look up", "append", "merge")


@pytest.fixture
def attempts(delta: DeltaRs) -> Attempts:
    return Attempts(delta, Statistics())


def supported(attempts: Attempts, table: str) -> set[str]:
    return {operation for operation in OPERATIONS if attempts.supports(operation, table)}


@pytest.mark.parametrize(
    ("columns", "operations"),
    [
        ("key STRING, at TIMESTAMP, n BIGINT, there BOOLEAN, data BINARY", {*OPERATIONS}),
        ("key STRING, row STRUCT<a: STRING>", {"scan", "append"}),
        ("key STRING, price DOUBLE, day DATE, total DECIMAL(9, 2)", {"scan", "append", "merge"}),
    ],
)
def test_column_types_decide_the_supported_operations(attempts: Attempts, columns: str, operations: set[str]) -> None:
    attempts.delta.ensure("t", Layout(columns, change_feed=True))
    assert supported(attempts, "t") == operations


@pytest.mark.parametrize(
    ("reader", "writer", "operations"),
    [
        ([], ["appendOnly", "changeDataFeed", "checkConstraints", "invariants"], {*OPERATIONS}),
        (["deletionVectors"], ["deletionVectors"], {"scan", "look up", "append"}),
        (["columnMapping"], ["columnMapping"], {"scan", "look up"}),
        ([], ["rowTracking", "domainMetadata"], {"scan", "look up"}),
        (["typeWidening"], ["typeWidening"], set()),
        (["featureToCome"], ["featureToCome"], set()),
        (1, 2, {*OPERATIONS}),
        (2, 5, {"scan", "look up"}),
        (1, 6, {"scan", "look up"}),
    ],
)
def test_features_or_versions_of_the_protocol_decide_the_supported_operations(
    attempts: Attempts, reader: list[str] | int, writer: list[str] | int, operations: set[str]
) -> None:
    """Replaces the protocol in the first commit of a table."""
    attempts.delta.ensure("t", Layout("key STRING"))
    versions = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader, "writerFeatures": writer}
    protocol = versions if isinstance(reader, list) else {"minReaderVersion": reader, "minWriterVersion": writer}
    commit = folder_of(attempts.delta.namespace, "t") / commit_file(0)
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    changed = [{"protocol": protocol} if "protocol" in action else action for action in actions]
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in changed))
    assert supported(attempts, "t") == operations


def test_a_missing_table_is_left_to_spark(attempts: Attempts) -> None:
    assert attempts.attempt("scan", "nothing", lambda _: 1) is None
    assert attempts.attempt("scan", "main.shop.others", lambda _: 1) is None
    assert not attempts.statistics.native_failures


def test_a_failure_is_logged_and_counted_by_table_and_cause(
    attempts: Attempts, caplog: pytest.LogCaptureFixture
) -> None:
    attempts.delta.ensure("t", Layout("key STRING"))

    def fails(opened: DeltaTable) -> pa.Table:
        return selected("SELECT no_such_column FROM t", t=opened).read_all()

    with caplog.at_level(logging.WARNING):
        assert [attempts.attempt("scan", "t", fails) for _ in range(2)] == [None, None]
    (failure,) = attempts.statistics.native_failures
    assert (failure.operation, failure.table) == ("scan", "t")
    assert "no_such_column" in failure.cause
    assert "\n" not in failure.cause
    assert "delta-rs failed at scan of table t, so Spark does it" in caplog.text
    assert "no_such_column" in caplog.text
    assert [attempts.statistics.drain().native_failures for _ in range(2)] == [{failure: 2}, {}]


def test_a_failure_of_an_operation_that_is_not_repeatable_is_raised(attempts: Attempts) -> None:
    attempts.delta.ensure("t", Layout("key STRING"))
    strange = pa.table({"other": ["a"]})
    with pytest.raises(ValueError, match="no columns other"):
        attempts.attempt_with("append", "t", lambda one: append_to(one, strange), repeatable=False)
    cause = "ValueError: the table has no columns other"
    assert attempts.statistics.native_failures == {NativeFailure("append", "t", cause): 1}


def test_an_operation_that_loses_against_another_writer_begins_again(attempts: Attempts) -> None:
    attempts.delta.ensure("t", Layout("key STRING"))
    lost = [CommitFailedError("of another process")]

    def merges(_: DeltaTable) -> int:
        if lost:
            raise lost.pop()
        return 1

    assert attempts.attempt("merge", "t", merges) == 1
    assert not attempts.statistics.native_failures
