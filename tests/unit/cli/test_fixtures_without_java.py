"""Fixtures of the example applications need no Java, unless their tables are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Kaspr

BUNDLES = Path(__file__).parents[3] / "bundles"


# Tables made from results, and a task; joins with streams; windows.
@pytest.mark.parametrize("name", ["order-totals", "order-entity", "page-views", "windowed-counters"])
def test_fixtures_pass_without_java(name: str, kaspr: Kaspr, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    answer = kaspr("test", str(BUNDLES / name))
    assert answer.code == 0, answer.out + answer.err
    assert " 0 failed" in answer.out
