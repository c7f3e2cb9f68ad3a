"""All combinations of origin, aggregation, window and group in a table's spec."""

from __future__ import annotations

from typing import Any

import pytest

from kaspr_delta.spec.aggregation import stream_origin_problems, table_origin_problems
from kaspr_delta.spec.table import TableSpec

CODE = {"python": "f = lambda *values: values"}
AGGREGATE = {"initializer": CODE, "adder": CODE}
OPERATIONS: dict[str, Any] = {
    "toTable": {},
    "count": {},
    "reduce": CODE,
    "aggregate": AGGREGATE,
    "aggregate and subtract": AGGREGATE | {"subtractor": CODE},
}
WINDOW = {"tumbling": {"size": "1m"}}
STREAM = {"toTable", "count", "reduce", "aggregate"}
TABLE = {"count", "aggregate and subtract"}


def problems(written: dict[str, Any]) -> list[str]:
    return [problem.message for problem in TableSpec.combination_problems(written)]


@pytest.mark.parametrize("origin", ["table", "topic", "channel", "join"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_each_origin_accepts_only_its_aggregations(
    origin: str, operation: str, *, windowed: bool, grouped: bool
) -> None:
    written = {"from": {origin: "x"}, operation.split(maxsplit=1)[0]: OPERATIONS[operation]}
    written |= {"window": WINDOW} if windowed else {}
    written |= {"groupBy": CODE} if grouped else {}
    over_a_stream = operation in STREAM
    over_a_table = operation in TABLE and not windowed
    place = ("from", origin)
    assert (list(stream_origin_problems(written, place)) == []) == over_a_stream
    assert (list(table_origin_problems(written, place)) == []) == over_a_table
    # Only a join's own manifest decides whether it is table-valued or stream-valued.
    accepted = {"table": over_a_table, "topic": over_a_stream, "channel": over_a_stream, "join": True}[origin]
    assert (problems(written) == []) == accepted
    if accepted:
        spec = TableSpec.model_validate(written)
        assert spec.from_ is not None
        assert getattr(spec.from_, origin) == "x"


def test_a_table_without_from_may_have_a_window_and_partitions() -> None:
    assert problems({"window": WINDOW, "partitions": 3}) == []
