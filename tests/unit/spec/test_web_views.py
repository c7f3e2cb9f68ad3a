"""Paths and headers of web views: one that cannot be served is refused, and of two that match the same one wins."""

from __future__ import annotations

from itertools import permutations

import pytest

from kaspr_delta.plan.definition.paths import Path
from kaspr_delta.spec.loader import load_text
from tests.manifests import manifests


def messages(spec: str) -> list[str]:
    """The findings of a web view, with its path and its headers."""
    return [finding.message for finding in load_text(manifests("shop", f"KasprWebView/v:\n{spec}"), "m.yaml").findings]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(?i)yes|no", "its flags would hold for all of it, write (?i:…)"),
        ("(?P<x>a)", "it names a group, or refers to one"),
        (r"(a)\1", "it names a group, or refers to one"),
        ("(a)?(?(1)b|c)", "it names a group, or refers to one"),
        ("a(", "is no regular expression: missing ), unterminated subpattern"),
        (r"(?:yes|no)[0-9]{2}\\1", None),
        ("(en|de)", None),
        ("(?i:yes|no)", None),
    ],
)
def test_the_expression_of_a_parameter_has_to_stand_with_others(expression: str, reason: str | None) -> None:
    found = messages(f"  request: {{method: GET, path: '/a/{{x:{expression}}}/{{y}}'}}")
    if reason is None:
        assert not found
        Path.of(f"/a/{{x:{expression}}}/{{y}}")
    else:
        assert len(found) == 1
        assert reason in found[0]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('"X-A": "✓"', "'✓' is no value of a header"),
        ('"X-A": "two\\nlines"', "'two\\nlines' is no value of a header"),
        ('"X-A": "\\x01"', "'\\x01' is no value of a header"),
        ('"X-A": " a"', "' a' is no value of a header"),
        ('"X A": "a"', "'X A' is no name of a header"),
        ('"X-A": "no-cache, max-age=3 é"', None),
        ('"X-A": ""', None),
    ],
)
def test_a_header_that_no_response_can_have_is_refused(header: str, message: str | None) -> None:
    found = messages(f"  request: {{method: GET, path: /a}}\n  response:\n    headers: {{{header}}}")
    assert found == ([] if message is None else [message])


@pytest.mark.parametrize(
    ("path", "matching"),
    [
        ("/v1/orders-of-customer", ["/{a}/orders-of-customer", "/v1/{b}", "/{a}/{b}"]),
        ("/o/5", ["/o/{x:[0-9]}", "/o/{x}"]),
        ("/user/me", ["/user/me", "/user/{id}", "/{a}/me"]),
        ("/a/b", ["/a/{x}", "/{x}/b"]),
        ("/files/42", ["/files/{id:[0-9]+}", "/files/{id}", "/files/{path:.*}"]),
    ],
)
def test_of_two_matching_paths_the_one_with_more_text_wins(path: str, matching: list[str]) -> None:
    for given in permutations(matching):
        found = sorted((Path.of(one) for one in given), key=lambda one: one.precedence)
        assert [one.text for one in found if one.match(path) is not None] == matching
