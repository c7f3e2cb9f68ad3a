"""The version of a table's row that a record sees, on the driver. Spark's answers are the same: ``test_twins.py``."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.joins.stream_table.seen import with_row, with_rows
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.storage.arrow_types import arrow_schema, batch_of
from kaspr_delta.storage.lazy_session import without_spark

RECORDS = arrow_schema("look_up STRING, stream_time TIMESTAMP, arrived TIMESTAMP")
VERSIONS = arrow_schema(
    "key STRING, `order` BIGINT, since TIMESTAMP, committed TIMESTAMP, value STRING, timestamp TIMESTAMP, fk STRING"
)


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, second=second, tzinfo=timezone.utc)


def rows_of(values: list[tuple[Any, ...]], schema: pa.Schema) -> LocalRows:
    return LocalRows(without_spark(), pa.Table.from_batches([batch_of(values, schema)]))


# From before the batch, by an event at 10, by a commit without an event at 20.
HISTORY = rows_of(
    [
        ("K", 5, at(10), None, "second", None, "a"),
        ("K", -1, None, None, "first", None, "b"),
        ("K", 6, None, at(20), "third", None, "a"),
    ],
    VERSIONS,
)


@pytest.mark.parametrize(
    ("look_up", "stream_time", "arrived", "stored"),
    [
        ("K", 9, 19, "first"),
        ("K", 10, 19, "second"),
        ("K", 9, 20, "third"),  # the last one in order
        ("K", 30, 30, "third"),
        ("other", 30, 30, None),
        (None, 30, 30, None),
    ],
)
def test_a_record_sees_the_last_version_that_began_before_it(
    look_up: str | None, stream_time: int, arrived: int, stored: str | None
) -> None:
    found = with_row(rows_of([(look_up, at(stream_time), at(arrived))], RECORDS), HISTORY).collect().to_pylist()
    assert [(row["stored"], row["newest"]) for row in found] == [(stored, "third" if look_up == "K" else None)]


@pytest.mark.parametrize(
    ("look_up", "stream_time", "arrived", "met"),
    [
        ("b", 9, 19, [("K", "first")]),
        ("b", 10, 19, [(None, None)]),  # the row refers to another key by then
        ("a", 9, 19, [(None, None)]),
        ("a", 10, 20, [("K", "third")]),
        (None, 10, 20, [(None, None)]),
    ],
)
def test_a_record_meets_the_rows_that_refer_to_its_key_as_it_sees_them(
    look_up: str | None, stream_time: int, arrived: int, met: list[tuple[str | None, str | None]]
) -> None:
    found = with_rows(rows_of([(look_up, at(stream_time), at(arrived))], RECORDS), HISTORY).collect().to_pylist()
    assert [(row["row"], row["right"]) for row in found] == met
