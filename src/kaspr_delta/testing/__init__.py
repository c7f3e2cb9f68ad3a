"""Tests of applications: fixtures in YAML, functions of manifests, and an application in a folder of its own.

Example, with pytest::

    from kaspr_delta.testing import Fixture, application, fixtures_in

    @pytest.mark.parametrize("fixture", fixtures_in("bundles/shop"), ids=str)
    def test_fixture(fixture: Fixture) -> None:
        fixture.check()

    def test_a_bill_has_a_total() -> None:
        with application("bundles/shop") as app:
            assert app.function("agent/bill", "enrich")({"price": 2, "quantity": 3})["total"] == 6
"""

from kaspr_delta.testing.fixtures import Fixture, fixtures_in
from kaspr_delta.testing.run import application

__all__ = ["Fixture", "application", "fixtures_in"]
