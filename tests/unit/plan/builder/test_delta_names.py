from __future__ import annotations

import pytest

from kaspr_delta.plan.builder.applications import applications
from kaspr_delta.plan.builder.delta_names import Claim, claims, refuse_clashes
from kaspr_delta.plan.builder.report import Report
from kaspr_delta.spec.diagnostics import Location
from kaspr_delta.spec.loader import load_text

FIRST, SECOND = Location("a.yaml", 1), Location("b.yaml", 2)


def messages(*claims: Claim) -> list[str]:
    report = Report()
    refuse_clashes(claims, report)
    return [finding.message for finding in report.findings]


def test_one_owner_may_claim_a_name_twice() -> None:
    assert messages(Claim("topic__a", "topic 'a'", FIRST), Claim("topic__a", "topic 'a'", SECOND)) == []


def test_two_owners_of_one_name_are_refused_with_both_places() -> None:
    (message,) = messages(Claim("a_b", "table 'a.b'", FIRST), Claim("a_b", "join 'a-b'", SECOND))
    assert message == "join 'a-b' and table 'a.b' at a.yaml:1:1 would share the Delta name 'a_b'"


def test_clashing_tables_give_one_message_and_none_for_their_views() -> None:
    clash = [
        Claim(name, owner, at) for name in ("a", "v_a") for owner, at in ((f"x {name}", FIRST), (f"y {name}", SECOND))
    ]
    assert len(messages(*clash)) == 1


@pytest.mark.parametrize("name", ["_kaspr", "_kaspr_events"])
def test_names_of_the_system_are_refused(name: str) -> None:
    assert messages(Claim(name, "table 'x'", FIRST)) == [f"table 'x' may not be called '{name}' in Delta"]


CODE = "{python: 'f = lambda value: value'}"
RESULT = {"x", "v_x", "channel__x_channel"}


@pytest.mark.parametrize(
    ("spec", "claimed"),
    [
        (f"{{leftTable: a, rightTable: b, extractor: {CODE}}}", RESULT | {"subscriptions__x"}),
        ("{leftTable: a, rightTable: b, on: key}", RESULT),
        ("{leftStream: {topic: a}, rightTable: b, on: key}", {"channel__x_channel", "waiting__x"}),
        (
            f"{{leftStream: {{topic: a}}, rightTable: b, type: left, rightExtractor: {CODE}}}",
            {"channel__x_channel", "index__x"},
        ),
        (
            "{leftStream: {topic: a}, rightStream: {topic: b}, on: key, window: {before: 1s, after: 1s}}",
            {"channel__x_channel", "buffer__x"},
        ),
    ],
)
def test_a_join_claims_the_names_that_its_shape_needs(spec: str, claimed: set[str]) -> None:
    assert names_of("KasprJoin", spec) == claimed


@pytest.mark.parametrize(
    ("spec", "claimed"),
    [
        ("{}", set()),
        ("{from: {topic: a}, count: {}}", {"aggregation__x"}),
        ("{from: {table: a}, count: {}}", {"aggregation__x", "contributions__x", "group_times__x"}),
        (
            "{from: {topic: a}, count: {}, window: {tumbling: {size: 1m}, emit: close}}",
            {"aggregation__x", "windows__x"},
        ),
    ],
)
def test_a_made_table_claims_the_names_that_its_aggregation_needs(spec: str, claimed: set[str]) -> None:
    assert names_of("KasprTable", spec) == {"x", "v_x"} | claimed


def names_of(kind: str, spec: str) -> set[str]:
    head = f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata: {{name: x, labels: {{kaspr.io/app: s}}}}\n"
    loaded = load_text(f"{head}spec: {spec}\n", "m.yaml")
    (application,) = applications(loaded.manifests, loaded.broken, Report())
    return {claim.delta_name for claim in claims(application, ())}
