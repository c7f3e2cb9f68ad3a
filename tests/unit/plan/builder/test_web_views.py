"""The functions of a web view can be called with what they are offered."""

from __future__ import annotations

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.loader import load_text

HEAD = "apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, labels: {{kaspr.io/app: a}}}}\nspec:\n"
TABLE = HEAD.format(kind="KasprTable", name="users") + "  name: users\n"
VIEW = (
    HEAD.format(kind="KasprWebView", name="v")
    + "  request: {method: GET, path: '/users/{id}'}\n  processors:\n    pipeline: [one, two]\n    operations:\n"
    + "    - {name: one, tables: [{name: users, paramName: users}], map: {python: 'ONE'}}\n"
    + "    - {name: two, map: {python: 'TWO'}}\n"
)


def errors(one: str, two: str = "def g(v): return v") -> list[str]:
    _, findings = build_plans(load_text(TABLE + "---\n" + VIEW.replace("ONE", one).replace("TWO", two), "m.yaml"))
    return [str(finding) for finding in findings if ": error: " in str(finding)]


@pytest.mark.parametrize(
    "function",
    [
        "def f(request): return 1",
        "def f(request, id): return 1",
        "def f(id, users): return 1",
        "def f(request, *, id, users): return 1",
        "def f(request, idd=1): return 1",
        "def f(request, **others): return 1",
        "def f(*everything): return 1",
        "f = lambda request, idd: 1",
        "import functools\n\n      def f(request, id): return 1",
    ],
)
def test_parameters_of_the_path_and_tables_are_filled(function: str) -> None:
    assert errors(function) == []


@pytest.mark.parametrize("function", ["def f(request, idd): return 1", "async def f(request, *, idd, users): return 1"])
def test_a_misspelt_parameter_of_the_path_is_an_error(function: str) -> None:
    (error,) = errors(function)
    assert error.startswith("m.yaml:15:76: error: nothing fills the parameter 'idd' of 'f' (did you mean 'id'?)")


def test_only_the_first_function_gets_the_parameters_of_the_path() -> None:
    (error,) = errors("def f(request): return 1", "def g(value, id): return 1")
    assert error == "m.yaml:16:33: error: nothing fills the parameter 'id' of 'g'"
