"""The sequence numbers of effects are unique and in the order of the records, whichever task processes them."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.engine.rows.sequence import SEQ_BITS, SEQ_MASK, first_seq
from kaspr_delta.engine.streams.offset_range import Numbering, OffsetRange, Received

offsets = st.sets(
    st.builds(
        lambda version, task, row: (version << SEQ_BITS) + first_seq(task) + row,
        st.integers(0, 5),
        st.integers(0, 3),
        st.integers(0, 100),
    ),
    min_size=1,
)


def ranges(source: str, found: set[int]) -> list[OffsetRange]:
    versions = {offset >> SEQ_BITS for offset in found}
    of = {version: [offset for offset in found if offset >> SEQ_BITS == version] for version in versions}
    return [OffsetRange(source, version, max(mine), len(mine), 0) for version, mine in of.items()]


@given(offsets, st.integers(1, 3))
def test_numbers_are_in_order_and_leave_room_for_every_effect(found: set[int], each: int) -> None:
    numbering = Numbering.of(ranges("in", found), each)
    assert numbering is not None
    numbers = numbering.numbers(pa.array(sorted(found), pa.int64())).to_pylist()
    assert numbers[0] >= 0
    assert numbers[-1] + each - 1 <= SEQ_MASK
    assert all(later - earlier >= each for earlier, later in pairwise(numbers))


def test_several_sources_or_too_large_offsets_get_no_numbers() -> None:
    half = (1 << SEQ_BITS - 1) - 1
    assert Numbering.of([OffsetRange("in", 0, 1, 1, 0), OffsetRange("other", 0, 1, 1, 0)], 1) is None
    assert Numbering.of([OffsetRange("in", 0, half, 1, 0)], 1) is not None
    assert Numbering.of([OffsetRange("in", 0, half, 1, 0)], 3) is None


def test_a_batch_has_the_position_and_row_count_of_each_source() -> None:
    one, other = {5, (1 << SEQ_BITS) + 3, (1 << SEQ_BITS) + 9}, {(4 << SEQ_BITS) + 7}
    found = [*ranges("a", one), *ranges("b", other)]
    assert Received.of(found) == Received({"a": max(one), "b": max(other)}, {"a": 3, "b": 1})
