"""The fixtures of the bundles pass, several at a time on one session, and one that should fail does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kaspr_delta.testing import Fixture, fixtures_in

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_fixtures_of_one_application_pass_side_by_side() -> None:
    fixtures = fixtures_in(ROOT / "bundles" / "order-system")
    with ThreadPoolExecutor(len(fixtures)) as pool:
        assert [result.differences for result in pool.map(lambda one: one.run(), fixtures)] == [{}, {}]


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "fixture", [one for one in fixtures_in(ROOT / "bundles") if "order-system" not in str(one.loaded.folder)], ids=str
)
def test_the_fixtures_of_the_bundles_pass(fixture: Fixture) -> None:
    fixture.check()
