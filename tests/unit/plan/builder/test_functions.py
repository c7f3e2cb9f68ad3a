"""The functions of agents and tasks can be called with what they are offered, and use the tables that they get."""

from __future__ import annotations

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.loader import load_text
from tests.manifests import manifests

AGENT = """
KasprApp/shop: {{}}
KasprTable/users: {{}}
KasprAgent/a:
  input: {{topic: {{name: t}}}}
  processors:
    pipeline: [one]
    operations:
      - name: one
        tables: [{{name: users, paramName: users}}]
        {function}
KasprTask/b:
  processors:
    pipeline: [two]
    operations:
      - name: two
        map: {{python: "def two(value, users): return value"}}
"""
BOTH = 'map: {python: "def f(value): return 1"}\n        topicSend: {name: u, predicate: {python: "PREDICATE"}}'
UNFILLED = "nothing fills the parameter 'users' of 'two'"


def found(function: str) -> list[str]:
    _, findings = build_plans(load_text(manifests("shop", AGENT.format(function=function)), "m.yaml"))
    return [one.message for one in findings if one.severity > Severity.NOTE]


def test_a_parameter_that_nothing_fills_is_an_error_of_agents_and_tasks() -> None:
    of_agent = "nothing fills the parameter 'user' of 'f'"
    assert found("map: {python: 'def f(value, users, user): return users'}") == [of_agent, UNFILLED]


@pytest.mark.parametrize(
    "function",
    [
        'map: {python: "def f(value, users): return users"}',
        'map: {python: "def f(value, users): return [lambda: users for _ in value]"}',
        'map: {python: "def f(value, users): return locals()"}',
        'map: {python: "def f(value, users):\\n  users |= value\\n  return value"}',
        'map: {python: "def f(value, users): return 1\\ndef f(value, users): return users"}',
        'map: {python: "def f(value, **tables): return 1"}',
        'map: {python: "import functools; f = functools.partial(print)", entrypoint: f}',
        BOTH.replace("f(value)", "f(value, users)").replace("PREDICATE", "def p(value, users): return users"),
    ],
)
def test_a_table_is_used_by_any_function_of_its_operation(function: str) -> None:
    assert found(function) == [UNFILLED]


@pytest.mark.parametrize(
    "function",
    ['map: {python: "def f(value): return 1"}', BOTH.replace("PREDICATE", "def p(value, user=1): return True")],
)
def test_a_table_that_no_function_takes_is_a_warning(function: str) -> None:
    assert found(function) == ["no function of operation 'one' has a parameter 'users' for this table", UNFILLED]


@pytest.mark.parametrize(
    "function",
    [
        'map: {python: "def f(value, users): return value"}',
        'map: {python: "def f(value, users):\\n  users = value\\n  return value"}',
        BOTH.replace("PREDICATE", "def p(value, users): return True"),
    ],
)
def test_a_table_that_no_function_reads_is_a_warning(function: str) -> None:
    assert found(function) == ["no function of operation 'one' uses its parameter 'users'", UNFILLED]
