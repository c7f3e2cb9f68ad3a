from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import Cost, Measurement, compared
from benchmarks.report import draw, page

KEPT = compared("B1", "first load", Cost(8, 12), Cost(5, 9), 1.6, "plain Spark")
MISSED = compared("B3", "one product changed", Cost(9, 12), Cost(3, 4), 2)
FASTER = Measurement("agent", 300.0, 100.0, 3.0, ">= 0.7", holds=True, benchmark="B6")
LINES = [asdict(one) for one in (KEPT, MISSED, FASTER)]
MACHINE = {
    "machine": "a processor, 2 cores, 8 GiB",
    "system": "Linux",
    "versions": {"python": "3.11", "pyspark": "4.2.0"},
    "runs": [{"command": "python -m benchmarks", "ended": "2026-11-22T10:00:00+00:00", "driver memory": "2g"}],
}


def test_a_ratio_of_seconds_meets_its_goal_unless_it_is_greater() -> None:
    assert (KEPT.ratio, KEPT.holds) == (1.6, True)
    assert (MISSED.ratio, MISSED.holds) == (3.0, False)
    assert compared("B1", "without a goal", Cost(8, 12), Cost(5, 9), None).holds is None


def test_the_page_shows_missed_goals_the_machine_and_versions() -> None:
    text = page(LINES, MACHINE)
    assert "| B1 | first load | plain Spark | 8 s | 5 s | 1.60 | <= 1.6 | yes | 12.0 | 9.0 |" in text
    assert "| B3 | one product changed |  | 9 s | 3 s | 3.00 | <= 2 | **missed** | 12.0 | 4.0 |" in text
    assert "| B6 | agent |  | 300 rows/s | 100 rows/s | 3.00 | >= 0.7 | yes |  |  |" in text
    assert "a processor, 2 cores, 8 GiB" in text
    assert "pyspark 4.2.0" in text


def test_the_picture_is_the_same_for_the_same_figures(tmp_path: Path) -> None:
    pictures = []
    for name in ("one.svg", "other.svg"):
        draw(LINES, tmp_path / name)
        pictures.append((tmp_path / name).read_text())
    assert pictures[0] == pictures[1]
    assert "B3 one product changed" in pictures[0]
