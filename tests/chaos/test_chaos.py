"""Two random histories; `make chaos` runs more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.hunt import hunting

# They contain kills, a continuous run, an agent that counts, and requests to a web view.
SEED, HISTORIES, STEPS = 229, 2, 16


@pytest.mark.spark
@pytest.mark.slow
def test_random_histories_agree_with_the_naive_model_at_every_quiet_point(tmp_path: Path) -> None:
    with hunting(tmp_path, tmp_path / "found", patience=60, steps=STEPS) as hunt:
        found = hunt.hunt(SEED, minutes=10, histories=HISTORIES)
    assert found == []
    assert hunt.judged >= HISTORIES
