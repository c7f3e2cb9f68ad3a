"""Statements that somebody else's commit forced to be repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from kaspr_delta.storage.namespace import LocalNamespace
from kaspr_delta.storage.spark.tables import SparkTables

CONFLICT = PySparkException("[DELTA_CONCURRENT_APPEND] Files were added by a concurrent update.")


@pytest.fixture
def delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkTables:
    monkeypatch.setattr("time.sleep", pauses.append)
    pauses.clear()
    return SparkTables(LocalNamespace(tmp_path, "app", "app"))


pauses: list[float] = []


def test_a_conflict_is_tried_again_with_growing_pauses_and_counted(delta: SparkTables) -> None:
    answers: list[Exception | str] = [CONFLICT, CONFLICT, "done"]

    def statement() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert delta._retried(statement) == "done"
    assert pauses == sorted(pauses)
    assert len(pauses) == 2
    assert delta.statistics.conflicts.take() == 2
    assert delta.statistics.conflicts.take() == 0


def test_a_conflict_that_does_not_end_is_raised(delta: SparkTables) -> None:
    def statement() -> None:
        raise CONFLICT

    with pytest.raises(PySparkException, match="CONCURRENT"):
        delta._retried(statement)
    assert len(pauses) > 2
    assert 30 < sum(pauses) < 90


def test_any_other_failure_is_raised_at_once(delta: SparkTables) -> None:
    def statement() -> None:
        raise PySparkException("[TABLE_OR_VIEW_NOT_FOUND]")

    with pytest.raises(PySparkException, match="NOT_FOUND"):
        delta._retried(statement)
    assert delta.statistics.conflicts.take() == 0
