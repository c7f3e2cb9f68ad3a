"""Patterns match whole names of topics, as Python's regular expressions do."""

from __future__ import annotations

import re

import pytest

from kaspr_delta.spec.patterns import matching, pattern_problem

NAMES = ("Orders", "internal-x", "orders", "raw-a", "raw-b-dlq", "raw.c")


@pytest.mark.parametrize(
    "pattern",
    ["raw-.*", "raw", "(?i)ORDERS", "a|orders", "^raw.*$", r"raw\.c", "(?!internal-).*", "(?!.*-dlq$)raw.*",
     "(?P<n>o).*", "(?!internal)(?!raw).*", "(?=raw)(?!.*dlq).*", "(?!(raw|internal)[-.]).*", r"(?!\)).*"],
)  # fmt: skip
def test_a_pattern_selects_the_names_that_python_selects(pattern: str) -> None:
    assert pattern_problem(pattern) is None
    assert matching(pattern, reversed(NAMES)) == tuple(name for name in NAMES if re.fullmatch(pattern, name))


@pytest.mark.parametrize("pattern", [r"(a)\1", "raw(?!-).*", ".*(?<!-dlq)", "(?!a(?!b)).*"])
def test_a_pattern_that_may_take_forever_is_refused(pattern: str) -> None:
    assert "may take forever" in str(pattern_problem(pattern))


def test_a_pattern_that_is_no_expression_has_the_reason_of_python() -> None:
    assert pattern_problem("a(") == "missing ), unterminated subpattern at position 1"
