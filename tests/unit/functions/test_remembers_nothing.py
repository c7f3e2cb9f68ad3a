from __future__ import annotations

import pytest

from kaspr_delta.functions.snippet import Snippet


@pytest.mark.parametrize(
    "source",
    [
        "def f(v): return v",
        "import json\nfrom math import floor\n\ndef f(v: dict, n=1, *, m='x') -> str:\n  return json.dumps(v)",
        "def helper(v): return v\n\nasync def f(v):\n  return helper(v)",
        "def f(v):\n  n = 0\n  def inner():\n    nonlocal n\n    n += 1\n  inner()\n  return n",
        "'about it'\ndef f(v):\n  v.seen = True\n  return v",
    ],
)
def test_a_snippet_that_only_defines_functions_remembers_nothing(source: str) -> None:
    assert Snippet(source, "f").remembers_nothing


@pytest.mark.parametrize(
    "source",
    [
        "n = 0\ndef f(v): return n",
        "def f(v):\n  global n\n  n = v",
        "def f(v, seen=[]):\n  seen.append(v)\n  return seen",
        "def f(v, *, seen={}): return seen",
        "def f(v):\n  f.calls = getattr(f, 'calls', 0) + 1\n  return f.calls",
        "def f(v):\n  globals()['n'] = v",
        "def f(v):\n  exec('n = 1')",
        "import functools\n\n@functools.cache\ndef f(v): return v",
        "class C:\n  n = 0\n\ndef f(v):\n  C.n += 1\n  return C.n",
        "f = lambda v: v",
        "from math import floor as f",
        "if True:\n  def f(v): return v",
    ],
)
def test_any_other_snippet_may_remember_something(source: str) -> None:
    assert not Snippet(source, "f").remembers_nothing
