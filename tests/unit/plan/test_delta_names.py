from __future__ import annotations

import pytest

from kaspr_delta.plan.delta_names import Claim, refuse_clashes
from kaspr_delta.plan.report import Report
from kaspr_delta.spec.diagnostics import Location

FIRST, SECOND = Location("a.yaml", 1), Location("b.yaml", 2)


def told(*claims: Claim) -> list[str]:
    report = Report()
    refuse_clashes(claims, report)
    return [finding.message for finding in report.findings]


def test_one_owner_may_name_a_thing_often() -> None:
    assert told(Claim("topic__a", "topic 'a'", FIRST), Claim("topic__a", "topic 'a'", SECOND)) == []


def test_two_owners_of_one_name_are_refused_with_both_places() -> None:
    (message,) = told(Claim("a_b", "table 'a.b'", FIRST), Claim("a_b", "join 'a-b'", SECOND))
    assert message == "join 'a-b' and table 'a.b' at a.yaml:1:1 would share the Delta name 'a_b'"


def test_the_views_of_clashing_tables_are_not_told_again() -> None:
    clash = [
        Claim(name, owner, at) for name in ("a", "v_a") for owner, at in ((f"x {name}", FIRST), (f"y {name}", SECOND))
    ]
    assert len(told(*clash)) == 1


@pytest.mark.parametrize("name", ["_kaspr", "_kaspr_events"])
def test_names_of_the_system_are_refused(name: str) -> None:
    assert told(Claim(name, "table 'x'", FIRST)) == [f"table 'x' may not be called '{name}' in Delta"]
