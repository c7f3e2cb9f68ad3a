"""Some histories of the hunt that `make chaos` goes on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.hunt import Hunt

# Among them: kills, a run without end, an agent that counts, a web view that is asked.
SEED, HISTORIES, STEPS = 170, 2, 16


@pytest.mark.spark
def test_whatever_happens_every_quiet_point_shows_what_a_naive_model_says(tmp_path: Path) -> None:
    with Hunt(tmp_path, tmp_path / "found", patience=60, steps=STEPS) as hunt:
        found = hunt.hunt(SEED, minutes=10, histories=HISTORIES)
    assert found == []
    assert hunt.judged >= HISTORIES
