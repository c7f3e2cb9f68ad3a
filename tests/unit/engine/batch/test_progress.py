"""When old rows of the system tables are forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from kaspr_delta.engine.batch import progress


@pytest.mark.parametrize(
    ("age", "forgotten"),
    [(None, True), (timedelta(0), False), (timedelta(days=1), True), (timedelta(days=-400), True)],
    ids=["no report", "today", "yesterday", "a clock that was ahead"],
)
def test_the_first_run_of_a_day_forgets_old_rows(
    monkeypatch: pytest.MonkeyPatch, age: timedelta | None, forgotten: bool
) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(progress, "forget_old", lambda *given: calls.append(given))
    tables: Any = object()
    spark: Any = object()
    progress.forget_old_daily(tables, spark, None if age is None else datetime.now(timezone.utc) - age)
    assert calls == ([(tables, spark)] if forgotten else [])
