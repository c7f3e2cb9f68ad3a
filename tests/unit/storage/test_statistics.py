"""Statements that are repeated after a conflict with another commit."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

import pytest
from pyspark.errors import PySparkException

from kaspr_delta.storage import statistics
from kaspr_delta.storage.statistics import Statistics, retried

CONFLICT = PySparkException("[DELTA_CONCURRENT_APPEND] Files were added by a concurrent update.")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr(statistics, "time", SimpleNamespace(sleep=taken.append))
    return taken


def test_a_conflict_is_tried_again_with_growing_pauses_and_counted(pauses: list[float]) -> None:
    counts = Statistics()
    assert retried(mock.Mock(side_effect=[CONFLICT, CONFLICT, "done"]), counts) == "done"
    assert pauses == sorted(pauses)
    assert len(pauses) == 2
    assert [counts.drain().conflicts for _ in range(2)] == [2, 0]


def test_a_conflict_that_does_not_end_is_raised(pauses: list[float]) -> None:
    with pytest.raises(PySparkException, match="CONCURRENT"):
        retried(mock.Mock(side_effect=CONFLICT), Statistics())
    assert len(pauses) > 2
    assert 30 < sum(pauses) < 90


def test_any_other_failure_is_raised_at_once(pauses: list[float]) -> None:
    with pytest.raises(PySparkException, match="NOT_FOUND"):
        retried(mock.Mock(side_effect=PySparkException("[TABLE_OR_VIEW_NOT_FOUND]")), Statistics())
    assert pauses == []
