"""The windowed join of two streams, without Spark, compared with Kafka Streams' recordings and a naive model."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.engine.joins.stream_stream.batch import SIDES
from kaspr_delta.engine.joins.stream_stream.window_join import (
    Buffered,
    Joined,
    JoinWindow,
    Side,
    StreamRecord,
    Times,
    WindowJoin,
)
from kaspr_delta.plan.definition.joins import JoinType
from tests.oracle.case import Case, Emission, load, text

RECORDED = Path(__file__).parents[4] / "oracle" / "visible"
CASES = [case for file in sorted(RECORDED.glob("*-stream-stream-*.json")) for case in load(file)]
assert len(CASES) == 126, "recordings are missing"
TYPES: tuple[JoinType, ...] = ("inner", "left", "outer")

recorded = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.type}-{case.name}")


@dataclass
class Buffer:
    """A buffer between batches, of which only necessary rows are read. ``tidy``: expired rows are deleted."""

    type: JoinType
    window: JoinWindow
    tidy: bool = True
    rows: dict[str, Buffered] = field(default_factory=dict)
    times: str = "[]"

    def run(self, batch: Sequence[StreamRecord]) -> list[list[Joined]]:
        times = Times(*json.loads(self.times))
        rows, unread = self.read(batch, times)
        join = WindowJoin(self.type, self.window, times, [Buffered(**asdict(row)) for row in rows], unread)
        results = [join.process(record) for record in batch]
        self.write(join)
        return results

    def read(self, batch: Sequence[StreamRecord], times: Times) -> tuple[list[Buffered], dict[Side, list[int]]]:
        latest = max([record.timestamp for record in batch], default=0)
        latest = latest if times.stream is None else max(latest, times.stream)
        read = [row for row in self.rows.values() if self.is_due(row, latest) or self.may_match(row, batch)]
        unread = [row for row in self.rows.values() if row.pending and row not in read]
        return read, self.needed(sorted((row.timestamp, row.side == "left") for row in unread))

    def is_due(self, row: Buffered, latest: int) -> bool:
        return row.pending and row.timestamp < self.window.closed(row.side, latest)

    def may_match(self, row: Buffered, batch: Sequence[StreamRecord]) -> bool:
        return any(
            (record.key, record.side) == (row.key, "left" if row.side == "right" else "right")
            and record.timestamp - self.window.reach(record.side)[0]
            <= row.timestamp
            <= record.timestamp + self.window.reach(record.side)[1]
            for record in batch
        )

    def needed(self, unread: list[tuple[int, bool]]) -> dict[Side, list[int]]:
        firsts = [next((place for place in unread if place[1] is is_left), None) for is_left in (True, False)]
        if self.type == "left":
            unread = unread[-1:]
        elif firsts[0] and firsts[1]:
            unread = unread[: unread.index(max(firsts[0], firsts[1])) + 2]
        return {side: [time for time, is_left in unread if is_left == (side == "left")] for side in SIDES}

    def write(self, join: WindowJoin) -> None:
        added, changed, removed = join.changes()
        assert not any(row.id in self.rows for row in added)
        assert all(self.rows[row.id].pending and not row.pending for row in changed)
        self.rows |= {row.id: row for row in [*added, *changed]}
        for row_id in removed:
            del self.rows[row_id]
        self.times = json.dumps(join.times)
        if self.tidy:
            bounds = {side: join.expired(side) for side in SIDES}
            for row in list(self.rows.values()):
                bound = bounds[row.side]
                if not row.pending and bound is not None and row.timestamp < bound:
                    del self.rows[row.id]


def cut(records: Sequence[StreamRecord], dice: random.Random) -> Iterator[Sequence[StreamRecord]]:
    """Batches of random size, some of them empty."""
    inner = sorted(dice.choices(range(len(records) + 1), k=dice.randint(0, len(records))))
    for first, last in pairwise([0, *inner, len(records)]):
        yield records[first:last]


def records_of(case: Case) -> list[StreamRecord]:
    return [
        StreamRecord(
            event.side, f"{event.side}/{n}", event.key, None if event.value is None else text(event.value), event.ts
        )
        for n, event in enumerate(case.events)
    ]


def join_of(case: Case) -> tuple[JoinType, JoinWindow]:
    named: dict[str, JoinType] = {name: name for name in TYPES}
    return named[case.type], JoinWindow(*(case.params[f"{name}_ms"] for name in ("before", "after", "grace")))


def emitted(results: Sequence[Sequence[Joined]]) -> tuple[tuple[Emission, ...], ...]:
    def value(result: Joined) -> str:
        left, right = (None if side is None else json.loads(side) for side in (result.left, result.right))
        return text({"left": left, "right": right})

    return tuple(tuple(Emission(text(one.key), value(one), one.timestamp) for one in some) for some in results)


@recorded
def test_each_record_gives_the_results_of_kafka_streams(case: Case) -> None:
    join = WindowJoin(*join_of(case))
    assert emitted([join.process(record) for record in records_of(case)]) == case.expected.emitted


@recorded
def test_results_do_not_depend_on_the_cut_into_batches(case: Case) -> None:
    for seed in range(10):
        buffer = Buffer(*join_of(case), tidy=seed % 2 == 0)
        results = [some for batch in cut(records_of(case), random.Random(seed)) for some in buffer.run(batch)]  # noqa: S311
        assert emitted(results) == case.expected.emitted


@st.composite
def streams(draw: st.DrawFn, *, steps: tuple[int, int], length: int = 40) -> list[StreamRecord]:
    """Two streams, interleaved; with steps below 0 records come out of order."""
    keys, values = st.sampled_from(["a", "b", "c", None]), st.sampled_from(["1", "2", "3", "4", "5", None])
    row = st.tuples(st.sampled_from(SIDES), keys, values, st.integers(*steps))
    time, records = 100, list[StreamRecord]()
    for n, (side, key, value, step) in enumerate(draw(st.lists(row, max_size=length))):
        time += step
        records.append(StreamRecord(side, f"{side}/{n}", key, value, time))
    return records


def windows(least: int = 0) -> st.SearchStrategy[JoinWindow]:
    reach = st.integers(least, 12)
    return st.builds(JoinWindow, reach, reach, st.integers(0, 8))


@given(st.sampled_from(TYPES), windows(), streams(steps=(-12, 9)), st.randoms(use_true_random=False))
def test_reading_only_necessary_rows_gives_the_same_results(
    join_type: JoinType, window: JoinWindow, records: list[StreamRecord], dice: random.Random
) -> None:
    whole = WindowJoin(join_type, window)
    expected = [whole.process(record) for record in records]
    buffer = Buffer(join_type, window)
    assert [results for batch in cut(records, dice) for results in buffer.run(batch)] == expected
    assert Times(*json.loads(buffer.times)) == (whole.times if records else Times())
    assert sorted(buffer.rows.values(), key=lambda row: row.id) == sorted(whole.changes()[0], key=lambda row: row.id)


@given(windows(least=1), streams(steps=(-12, 9)))
def test_an_inner_join_has_every_pair_within_bounds_when_nothing_is_late(
    window: JoinWindow, records: list[StreamRecord]
) -> None:
    in_time = list[StreamRecord]()
    for record in records:
        if all(record.timestamp >= before.timestamp - window.grace for before in in_time):
            in_time.append(record)
    join = WindowJoin("inner", window)
    results = [result for record in in_time for result in join.process(record)]
    pairs = [
        Joined(left.key, left.value, right.value, max(left.timestamp, right.timestamp))
        for left in in_time
        for right in in_time
        if (left.side, right.side) == ("left", "right") and left.key == right.key is not None
        if left.value is not None and right.value is not None
        if -window.before <= right.timestamp - left.timestamp <= window.after
    ]
    assert Counter(results) == Counter(pairs)


@given(st.sampled_from(TYPES), windows(), streams(steps=(-12, 9), length=80))
def test_the_buffer_holds_at_most_a_window_and_two_of_pending_rows(
    join_type: JoinType, window: JoinWindow, records: list[StreamRecord]
) -> None:
    buffer, scanned = Buffer(join_type, window), 0
    size, longest = window.before + window.after + window.grace, max(window.before, window.after) + window.grace
    for record in records:
        buffer.run([record])
        times = Times(*json.loads(buffer.times))
        if record.timestamp == times.stream and record.key is not None and record.value is not None:
            scanned = record.timestamp
        for row in buffer.rows.values():
            latest = times.left if row.side == "left" else times.right
            assert latest is not None
            assert row.timestamp > latest - size or (row.pending and row.timestamp >= scanned - 2 * longest)


def row(side: Side, number: int, **fields: Any) -> Buffered:
    given = {"key": "k", "value": "1", "timestamp": 100, "pending": True, "arrived": number}
    return Buffered(side, f"{side}/{number}", **{**given, **fields})


def test_matched_rows_stay_while_later_records_can_match_them() -> None:
    join = WindowJoin("left", JoinWindow(10, 10, 0), Times(100, 100, None, 100, 1), [row("left", 0)])
    join.process(StreamRecord("right", "right/1", "k", "2", 105))
    assert join.changes() == (
        [row("right", 1, value="2", timestamp=105, pending=False)],
        [row("left", 0, pending=False)],
        [],
    )
    assert join.expired("left") == 81


def test_rows_expire_by_the_time_of_their_own_side() -> None:
    join = WindowJoin("inner", JoinWindow(10, 10, 0), Times(100, 100, 100, None, 2), [row("left", 0, pending=False)])
    join.process(StreamRecord("right", "right/2", "z", "2", 150))
    assert join.changes()[2] == []
    join.process(StreamRecord("left", "left/3", "z", "2", 120))
    assert join.changes()[2] == ["left/0"]
    assert (join.expired("left"), join.expired("right")) == (101, 131)


def test_a_row_added_and_removed_in_one_batch_is_no_change() -> None:
    join = WindowJoin("left", JoinWindow(10, 10, 0))
    for n, timestamp in enumerate([100, 200]):
        join.process(StreamRecord("left", f"left/{n}", "k", "1", timestamp))
    assert join.changes() == ([row("left", 1, timestamp=200)], [], [])


def test_the_next_scan_is_due_by_the_last_row_that_was_read() -> None:
    """As in Kafka Streams: the next scan is due by the last row that was read, not by the oldest that stayed."""
    join = WindowJoin("left", JoinWindow(10, 10, 0))

    def came(number: int, timestamp: int) -> list[int]:
        record = StreamRecord("left", f"left/{number}", str(number), "1", timestamp)
        return [result.timestamp for result in join.process(record)]

    assert [came(n, time) for n, time in enumerate([100, 105, 109])] == [[], [], []]
    assert came(3, 111) == [100]
    assert came(4, 116) == []
    assert came(5, 120) == [105, 109]
