"""Statements that are repeated after a conflict with another commit."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from kaspr_delta.storage.spark.retries import retried
from kaspr_delta.storage.statistics import Counted

CONFLICT = PySparkException("[DELTA_CONCURRENT_APPEND] Files were added by a concurrent update.")


@pytest.fixture
def conflicts(monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setattr("time.sleep", pauses.append)
    pauses.clear()
    return Counted()


pauses: list[float] = []


def test_a_conflict_is_tried_again_with_growing_pauses_and_counted(conflicts: Counted) -> None:
    answers: list[Exception | str] = [CONFLICT, CONFLICT, "done"]

    def statement() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert retried(statement, conflicts) == "done"
    assert pauses == sorted(pauses)
    assert len(pauses) == 2
    assert conflicts.drain() == 2
    assert conflicts.drain() == 0


def test_a_conflict_that_does_not_end_is_raised(conflicts: Counted) -> None:
    def statement() -> None:
        raise CONFLICT

    with pytest.raises(PySparkException, match="CONCURRENT"):
        retried(statement, conflicts)
    assert len(pauses) > 2
    assert 30 < sum(pauses) < 90


def test_any_other_failure_is_raised_at_once(conflicts: Counted) -> None:
    def statement() -> None:
        raise PySparkException("[TABLE_OR_VIEW_NOT_FOUND]")

    with pytest.raises(PySparkException, match="NOT_FOUND"):
        retried(statement, conflicts)
    assert conflicts.drain() == 0
