"""Tables with windows without Spark: rows show when a window closes, and go when it expires."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaspr_delta import Application
from tests.manifests import manifests

MANIFESTS = """
KasprApp/readings: {}
KasprTable/counters:
  window: {tumbling: {size: 1m, expires: 2m}, emit: close}
  defaultSelector: {python: "def none(): return int"}
KasprAgent/count:
  input: {topic: {name: readings}}
  processors:
    pipeline: [count]
    operations:
      - name: count
        map: {python: "def count(value, counters): counters[value['sensor']] += 1"}
        tables: [{name: counters, paramName: counters}]
"""


def test_rows_show_when_their_window_closes_and_go_when_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # there is no Java
    (tmp_path / "app.yaml").write_text(manifests("readings", MANIFESTS))
    app = Application.open(tmp_path / "app.yaml", warehouse=tmp_path / "wh")
    plan = app.table("counters").table.plan

    def rows_after(second: int) -> tuple[list[tuple[str, int, int]], int]:
        """The rows that are shown, with their windows, and the number of rows of the state."""
        record = {"key": "S", "value": {"sensor": "S"}, "timestamp": second * 1_000, "partition": 0}
        app.topic("readings").produce([record])
        app.run()
        shown = [(place[0], int(place[1].timestamp()), value) for place, value in app.table("counters").rows()]
        return sorted(shown), app.delta.scan(app._spark, plan.state).rows(["key"]).num_rows

    assert rows_after(10) == ([], 1)
    assert rows_after(20) == ([], 1)
    assert rows_after(70) == ([("S", 0, 2)], 2)
    assert rows_after(130) == ([("S", 0, 2), ("S", 60, 1)], 3)
    assert rows_after(185) == ([("S", 60, 1), ("S", 120, 1)], 3)
