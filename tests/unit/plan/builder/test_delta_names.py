from __future__ import annotations

import pytest

from kaspr_delta.plan.builder.applications import applications
from kaspr_delta.plan.builder.delta_names import Claim, claims, refuse_clashes
from kaspr_delta.spec.diagnostics import Location, Report
from kaspr_delta.spec.loader import load_text
from tests.unit.plan.shop import CODE, manifest

FIRST, SECOND = Location("a.yaml", 1), Location("b.yaml", 2)


def messages(*claims: Claim) -> list[str]:
    report = Report()
    refuse_clashes(claims, report)
    return [finding.message for finding in report.findings]


def test_one_owner_may_claim_a_name_twice() -> None:
    assert messages(Claim("topic__a", "topic 'a'", FIRST), Claim("topic__a", "topic 'a'", SECOND)) == []


def test_clashing_tables_give_one_message_and_none_for_their_views() -> None:
    owners = (("x", FIRST), ("y", SECOND))
    clash = [Claim(name, f"{owner} {name}", at) for name in ("a", "v_a") for owner, at in owners]
    assert messages(*clash) == ["y a and x a at a.yaml:1:1 would share the Delta name 'a'"]


@pytest.mark.parametrize("name", ["_kaspr", "_kaspr_events"])
def test_names_of_the_system_are_refused(name: str) -> None:
    assert messages(Claim(name, "table 'x'", FIRST)) == [f"table 'x' may not be called '{name}' in Delta"]


@pytest.mark.parametrize(
    ("kind", "spec", "claimed"),
    [
        (
            "KasprJoin",
            f"leftTable: a\nrightTable: b\nextractor: {CODE}",
            "x v_x channel__x_channel records__x_channel subscriptions__x differences__x shown__x current__x",
        ),
        (
            "KasprJoin",
            "leftTable: a\nrightTable: b\non: key",
            "x v_x channel__x_channel records__x_channel differences__x shown__x current__x",
        ),
        (
            "KasprJoin",
            "leftStream: {topic: a}\nrightTable: b\non: key",
            "channel__x_channel records__x_channel waiting__x",
        ),
        (
            "KasprJoin",
            f"leftStream: {{topic: a}}\nrightTable: b\ntype: left\nrightExtractor: {CODE}",
            "channel__x_channel records__x_channel index__x",
        ),
        (
            "KasprJoin",
            "leftStream: {topic: a}\nrightStream: {topic: b}\non: key\nwindow: {before: 1s, after: 1s}",
            "channel__x_channel records__x_channel buffer__x",
        ),
        ("KasprTable", "name: x", "x v_x"),
        ("KasprTable", "from: {topic: a}\ncount: {}", "x v_x aggregation__x"),
        (
            "KasprTable",
            "from: {table: a}\ncount: {}",
            "x v_x aggregation__x contributions__x group_times__x differences__x shown__x current__x",
        ),
        (
            "KasprTable",
            "from: {topic: a}\ncount: {}\nwindow: {tumbling: {size: 1m}, emit: close}",
            "x v_x aggregation__x windows__x",
        ),
    ],
)
def test_a_resource_claims_the_names_that_it_needs(kind: str, spec: str, claimed: str) -> None:
    loaded = load_text(manifest(kind, "x", spec), "m.yaml")
    (application,) = applications(loaded.manifests, loaded.broken, Report())
    assert {claim.delta_name for claim in claims(application, ())} == set(claimed.split())
