"""One batch of a stream-stream join: partitions, the order of records, and what goes to the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.batch.log import BatchMetadata
from kaspr_delta.engine.joins.stream_stream.batch import LOGGED, StreamStreamBatch, merged
from kaspr_delta.engine.joins.stream_stream.window_join import Buffered, JoinWindow, Side, StreamRecord, Times
from kaspr_delta.plan.definition.joins import JoinType
from kaspr_delta.serde.instants import EPOCH
from kaspr_delta.storage.layout import STREAM_CHANNEL

WINDOW = JoinWindow(before=10, after=10, grace=0)


def arrived(
    side: Side, timestamp: int, offset: int = 0, *, key: str | None = "k", value: str | None = None, partition: int = 0
) -> StreamRecord:
    """A record. Its default value is made of side and time, such as ``l5``; an empty value becomes None."""
    text = f"{side[0]}{timestamp}" if value is None else value or None
    return StreamRecord(side, f"{side}:{partition}/{offset}", key, text, timestamp, partition, offset)


@dataclass
class InMemoryJoin:
    """A join that keeps its buffer between batches in memory instead of in a table."""

    kind: JoinType
    window: JoinWindow = WINDOW
    state: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, tuple[int, Buffered]] = field(default_factory=dict)

    def run(self, *records: StreamRecord) -> list[dict[str, Any]]:
        batch = StreamStreamBatch.resumed(self.kind, self.window, self.state)
        buffer: dict[int, list[Buffered]] = {}
        for partition, row in self.rows.values():
            buffer.setdefault(partition, []).append(row)
        table = batch.run(records, buffer, {})
        assert table.schema == LOGGED
        self._fold(table)
        self.state = json.loads(json.dumps({"times": batch.times, "cleaned": batch.cleaned}))
        return [row for row in table.to_pylist() if row["kind"] == "value"]

    def _fold(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            if row["kind"] == "state":
                self.rows.pop(row["id"], None)
                if row["live"]:
                    time = milliseconds(row["timestamp"])
                    fields = row["side"], row["id"], row["key"], row["left"], time, row["pending"], row["arrived"]
                    self.rows[row["id"]] = row["partition"], Buffered(*fields)
            if row["kind"] == "expire":
                for name, (partition, kept) in list(self.rows.items()):
                    expired = not kept.pending and kept.timestamp < milliseconds(row["until"])
                    if expired and (partition, kept.side) == (row["partition"], row["side"]):
                        del self.rows[name]


def milliseconds(time: datetime) -> int:
    return (time - EPOCH) // timedelta(milliseconds=1)


def pairs(rows: Sequence[dict[str, Any]]) -> list[tuple[str | None, str | None]]:
    return [(row["left"], row["right"]) for row in rows]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        # The side whose head is older goes first, at equal times the left one.
        ([arrived("right", 5), arrived("left", 1), arrived("left", 9, 1)], "l1 r5 l9"),
        ([arrived("right", 1), arrived("left", 1)], "l1 r1"),
        # Each side keeps the order in which it arrived: a late record stays behind earlier ones of its side.
        ([arrived("left", 9, 0), arrived("left", 1, 1), arrived("right", 5, 0), arrived("right", 3, 1)], "r5 r3 l9 l1"),
        ([arrived("left", 9, 0), arrived("left", 1, 1), arrived("right", 9, 0)], "l9 l1 r9"),
        # Offsets of the two sides are not compared.
        ([arrived("left", 2, 100), arrived("right", 1, 999)], "r1 l2"),
    ],
)
def test_records_are_merged_by_the_times_of_their_heads(records: list[StreamRecord], expected: str) -> None:
    assert [record.value for record in merged(records)] == expected.split()


class TestPartitions:
    def test_equal_keys_meet_in_one_partition_only(self) -> None:
        rows = InMemoryJoin("inner").run(arrived("left", 1), arrived("right", 2, partition=1), arrived("right", 3))
        assert pairs(rows) == [("l1", "r3")]

    def test_each_partition_has_its_own_stream_time(self) -> None:
        joins = InMemoryJoin("left")
        assert joins.run(arrived("left", 1), arrived("left", 1_000, partition=1)) == []
        assert pairs(joins.run(arrived("right", 2, 1))) == [("l1", "r2")]

    def test_the_stream_time_of_a_partition_counts_records_without_a_key(self) -> None:
        batch = StreamStreamBatch("left", WINDOW, {0: Times(stream=50), 2: Times(stream=9)}, {})
        records = arrived("left", 7), arrived("right", 8, partition=1, key=None), arrived("left", 5, partition=1)
        assert batch.newest(records) == {0: 50, 1: 8}


class TestLog:
    def test_the_log_has_every_column_of_a_batch(self) -> None:
        assert set(LOGGED.names) <= {column.split()[0] for column in STREAM_CHANNEL.columns.split(", ")}

    def test_results_are_numbered_in_their_order(self) -> None:
        rows = InMemoryJoin("inner").run(arrived("left", 1), arrived("left", 2, 1), arrived("right", 3))
        assert pairs(rows) == [("l1", "r3"), ("l2", "r3")]
        assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
        assert {row["failed"] for row in rows} == {False}
        assert {row["timestamp"] for row in rows} == {EPOCH + timedelta(milliseconds=3)}

    def test_times_before_1970_are_kept(self) -> None:
        (row,) = InMemoryJoin("inner").run(arrived("left", -20), arrived("right", -15))
        assert row["timestamp"] == EPOCH - timedelta(milliseconds=15)

    def test_records_match_records_of_earlier_batches(self) -> None:
        joins = InMemoryJoin("left")
        assert joins.run(arrived("left", 1)) == []
        assert pairs(joins.run(arrived("right", 5))) == [("l1", "r5")]
        assert pairs(joins.run(arrived("right", 6, 1))) == [("l1", "r6")]

    def test_a_record_without_a_value_is_neither_joined_nor_kept(self) -> None:
        joins = InMemoryJoin("outer")
        assert joins.run() == joins.run(arrived("left", 5, value="")) == []
        assert joins.rows == {}


class TestCleaning:
    def test_records_that_can_no_longer_match_leave_the_buffer(self) -> None:
        joins = InMemoryJoin("inner")
        joins.run(arrived("left", 1), arrived("left", 5, 1))
        assert len(joins.rows) == 2
        joins.run(arrived("left", 1_000, 2))
        assert [row.value for _, row in joins.rows.values()] == ["l1000"]

    def test_the_buffer_is_cleaned_at_most_once_per_window_length(self) -> None:
        batch = StreamStreamBatch("inner", WINDOW, {}, {})

        def expiries(timestamp: int) -> int:
            fresh = StreamStreamBatch("inner", WINDOW, batch.times, batch.cleaned)
            table = fresh.run([arrived("left", timestamp, timestamp)], {}, {})
            return sum(kind == "expire" for kind in table["kind"].to_pylist())

        assert [expiries(timestamp) for timestamp in (0, 5, 19, 20, 39, 41)] == [1, 0, 0, 1, 0, 1]

    def test_a_record_that_may_still_be_emitted_unmatched_stays(self) -> None:
        joins = InMemoryJoin("left", JoinWindow(before=0, after=10, grace=100))
        joins.run(arrived("left", 1))
        joins.run(arrived("left", 111, 1, key="other"))
        assert {row.value for _, row in joins.rows.values()} == {"l1", "l111"}


class TestState:
    def test_the_state_is_read_back_from_the_log_unchanged(self) -> None:
        joins = InMemoryJoin("outer")
        joins.run(arrived("left", 1), arrived("right", 2, partition=1))
        metadata = BatchMetadata(state=joins.state)
        state = BatchMetadata.from_json(metadata.to_json()).state
        assert state == joins.state
        again = StreamStreamBatch.resumed("outer", WINDOW, state)
        assert {partition: times.stream for partition, times in again.times.items()} == {0: 1, 1: 2}

    def test_a_new_state_is_empty(self) -> None:
        assert StreamStreamBatch.resumed("outer", WINDOW, {}) == StreamStreamBatch("outer", WINDOW, {}, {})
