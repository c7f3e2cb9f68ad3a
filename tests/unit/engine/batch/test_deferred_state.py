from __future__ import annotations

import pyarrow as pa

from kaspr_delta.engine.batch.deferred_state import newest_states


def test_of_several_states_of_a_key_the_newest_counts() -> None:
    older = pa.table({"key": ["a", "b"], "fk": ["1", "1"]})
    newer = pa.table({"key": ["b", "c"], "fk": ["2", "2"]})
    assert sorted(map(tuple, map(dict.values, newest_states([older, newer]).to_pylist()))) == [
        ("a", "1"),
        ("b", "2"),
        ("c", "2"),
    ]
