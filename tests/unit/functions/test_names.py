from __future__ import annotations

import pytest

from kaspr_delta.functions.entrypoint import resolve, resolve_statements
from kaspr_delta.functions.names import bound_names, undefined_names
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.loader import load_text
from tests.manifests import manifests


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(value): return valeu", ["valeu"]),
        ("def f(value):\n    def g(): return value, other\n    return g()", ["other"]),
        ("import json\ndef f(value): return json.loads(value), jsn", ["jsn"]),
        ("def f(value): return [one for one in value if one in ones]", ["ones"]),
        ("class A:\n    x = y\n    def get(self): return x\ndef f(value): return A", ["y", "x"]),
        ("def f(value, more=later): return more\nlater = 1", []),
        ("def f(value):\n    global count\n    count = 1\ndef g(): return count", []),
        ("def f(value):\n    try: return len(value)\n    except TypeError as error: return error.args", []),
        ("def f(value):\n    match value:\n        case {'a': a}: return a", []),
        ("f = lambda value: __name__ + str(value)", []),
        ("from math import *\ndef f(value): return sqrt(value)", []),
        ("exec('x = 1')\ndef f(value): return x", []),
        ("def f(value): return (found := value) and found", []),
        ("for number in range(3): pass\ndef f(value): return number", []),
    ],
)
def test_names_that_nothing_defines_are_found_in_the_order_of_their_use(source: str, names: list[str]) -> None:
    assert [one.name for one in undefined_names(resolve(source), ())] == names


def test_given_names_are_defined_and_each_name_has_its_first_place() -> None:
    snippet = resolve("def f(value):\n    return seen[value] or seen.get(rate)\n")
    assert undefined_names(snippet, {"rate"}) == (("seen", 2, 12),)


def test_an_init_binds_names_at_its_top_level_and_global_ones() -> None:
    init = resolve_statements(
        "import json as j\nfrom math import pi\nx = y = 1\ndef f():\n    global z\n    z = local = 1\n"
    )
    assert bound_names(init) == {"j", "pi", "x", "y", "f", "z"}


AGENT = """
KasprAgent/a:
  input: {topic: {name: t}}
  output: {topics: [{name: u, keySelector: {python: "def key(value): return context, rate"}}]}
  processors:
    init: {python: "rate = 2; cached = memo"}
    pipeline: [double]
    operations:
      - name: double
        map:
          python: |
            def double(value):
                return value * rate * ratee, context
KasprWebView/w:
  request: {method: GET, path: /w}
  response: {bodySelector: {onSuccess: {python: "def body(value): return limit, context, lmit"}}}
  processors:
    init: {python: "limit = 3"}
    pipeline: [one]
    operations: [{name: one, map: {python: "f = lambda value: value"}}]
"""


def test_steps_and_responses_see_the_names_of_init_and_selectors_of_agents_do_not() -> None:
    found = [one for one in load_text(manifests("shop", AGENT), "m.yaml").findings if one.severity is Severity.WARNING]
    assert [f"{one.location.line}: {one.message} ({one.hint})" for one in found] == [
        "8: nothing defines the name 'context' (define or import it; each use of it fails)",
        "8: nothing defines the name 'rate' (define or import it; each use of it fails)",
        "10: nothing defines the name 'memo' (define or import it; each use of it fails)",
        "17: nothing defines the name 'ratee' (did you mean 'rate'?)",
        "24: nothing defines the name 'lmit' (did you mean 'limit'?)",
    ]
    assert found[3].location.column == 39
