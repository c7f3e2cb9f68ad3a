"""The function of a ``select``, applied to rows of a log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.joins.select import SelectRow
from kaspr_delta.engine.streams.selector import ARROW_PROBLEM
from kaspr_delta.spec.ddl import Type, columns_of
from kaspr_delta.storage.layout import SELECTED
from tests.unit.engine.agent.agents import code, table_plan

LOGGED = pa.schema(
    [
        *[(name, pa.string()) for name in ("kind", "left", "right")],
        ("problem", ARROW_PROBLEM),
        ("failed", pa.bool_()),
        ("emitted", pa.string()),
    ]
)
TOTAL = Type("STRUCT", fields=tuple(columns_of("total BIGINT")))
FAILED = {"reason": "r", "detail": "d", "value": None}


def selected(function: str, *rows: dict[str, Any]) -> list[tuple[str | None, str | None, bool]]:
    """For each row: the result, the reason of its problem, and whether it failed."""
    select = SelectRow(code(function), TOTAL, (table_plan("left"), table_plan("right")), timeout=300.0)
    (found,) = select([pa.RecordBatch.from_pylist(list(rows), LOGGED)])
    assert found.schema.names == [*LOGGED.names, SELECTED]
    assert found["emitted"].to_pylist() == [row.get("emitted") for row in rows]
    return [(row[SELECTED], row["problem"] and row["problem"]["reason"], row["failed"]) for row in found.to_pylist()]


def test_each_pair_gets_the_result_of_the_function() -> None:
    pair = {"kind": "value", "left": '{"n":1}', "right": '{"n":2}', "failed": False, "emitted": "h:h"}
    lonely = {**pair, "right": None}
    function = "def f(left, right): return {'total': left['n'] + (right['n'] if right else 0)}"
    assert selected(function, pair, lonely) == [('{"total":3}', None, False), ('{"total":1}', None, False)]


def test_tombstones_and_failed_rows_are_not_selected() -> None:
    tombstone, failed = {"kind": "tombstone", "failed": False}, {"kind": "state", "problem": FAILED, "failed": True}
    found = selected("def f(left, right): return 1 / 0", tombstone, failed)
    assert found == [(None, None, False), (None, "r", True)]


@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
def test_a_function_that_exits_fails_its_row(error: str) -> None:
    row = {"kind": "value", "left": "{}", "failed": False}
    assert selected(f"def f(left, right): raise {error}", row) == [(None, "select failed", True)]


def test_only_pairs_without_a_usable_result_have_a_problem() -> None:
    pairs = [{"kind": "value", "left": left, "failed": False} for left in ('{"total":1}', "{}", '{"total":"x"}')]
    found = selected("def f(left, right): return {'total': left['total']}", *pairs)
    assert found == [
        ('{"total":1}', None, False),
        (None, "select failed", True),
        (None, "selected row cannot be used", True),
    ]
