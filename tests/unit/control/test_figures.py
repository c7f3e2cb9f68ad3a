from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kaspr_delta.control.figures import Figures
from tests.manifests import plan_of_bundle


def test_in_a_catalog_rows_are_counted_by_statements_and_lags_are_unknown() -> None:
    plan = plan_of_bundle("order-system")
    there = {("orders", "SELECT count(*) AS many FROM t"): [{"many": 3}]}
    system: Any = SimpleNamespace(query=lambda table, sql: there.get((table, sql), []))
    figures = Figures.by_query(system, plan)
    assert (figures.rows("orders"), figures.rows("products")) == (3, 0)
    assert {figures.lag(ref) for ref in plan.runs} == {None}
    assert (figures.done, figures.rebuilds) == ({}, {})
