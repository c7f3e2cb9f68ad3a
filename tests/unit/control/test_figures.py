from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kaspr_delta.control.figures import Figures
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.loader import load_path

BUNDLE = Path(__file__).parents[3] / "bundles" / "order-system"


def test_in_a_catalog_rows_are_counted_by_statements_and_lags_are_unknown() -> None:
    (plan,), _ = build_plans(load_path(BUNDLE))
    there = {("orders", "SELECT count(*) AS many FROM t"): [{"many": 3}]}
    system: Any = SimpleNamespace(query=lambda table, sql: there.get((table, sql), []))
    figures = Figures.by_query(system, plan)
    assert (figures.rows("orders"), figures.rows("products")) == (3, 0)
    assert {figures.lag(ref) for ref in plan.runs} == {None}
    assert (figures.done, figures.rebuilds) == ({}, {})
