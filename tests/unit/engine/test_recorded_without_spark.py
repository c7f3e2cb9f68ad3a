"""Recorded answers of Kafka Streams, found without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.__main__ import VISIBLE
from tests.oracle.case import load
from tests.oracle.modes import differences

FEW = 6


@pytest.mark.parametrize(
    "shape",
    [
        *("fk-table-table-left", "table-table-outer", "stream-stream-outer", "stream-table-left"),
        *("stream-globaltable-inner", "to-table-table", "aggregate-groupby-sum", "windowed-count-hopping"),
    ],
)
def test_recorded_cases_have_kafka_streams_answers(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # there is no Java
    cases = load(VISIBLE / f"random-{shape}.json")[:FEW]
    found = differences(cases, tmp_path, seed=0, modes=["random batch cuts"], on_spark=False)
    assert [one for one in found if one is not None] == []
    assert len(found) == FEW
