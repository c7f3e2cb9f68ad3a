"""The functions of a web view can be called with what they are offered."""

from __future__ import annotations

import pytest

from tests.unit.plan.shop import errors

VIEW = """\
request: {method: GET, path: '/users/{id}'}
processors:
  pipeline: [one, two]
  operations:
  - {name: one, tables: [{name: users, paramName: users}], map: {python: 'ONE'}}
  - {name: two, map: {python: 'TWO'}}
"""


def refused(one: str, two: str = "def g(v): return v") -> list[str]:
    view = ("KasprWebView", "v", VIEW.replace("ONE", one).replace("TWO", two))
    return [str(error) for error in errors(("KasprTable", "users", "name: users"), view)]


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
        "import functools\n\n    def f(request, id): return 1",
    ],
)
def test_parameters_of_the_path_and_tables_are_filled(function: str) -> None:
    assert refused(function) == []


@pytest.mark.parametrize("function", ["def f(request, idd): return 1", "async def f(request, *, idd, users): return 1"])
def test_a_misspelt_parameter_of_the_path_is_an_error(function: str) -> None:
    message = "nothing fills the parameter 'idd' of 'f' (did you mean 'id'?)"
    assert refused(function) == [f"m.yaml:26:76: error: {message}"]


def test_only_the_first_function_gets_the_parameters_of_the_path() -> None:
    message = "m.yaml:27:33: error: nothing fills the parameter 'id' of 'g'"
    assert refused("def f(request): return 1", "def g(value, id): return 1") == [message]
