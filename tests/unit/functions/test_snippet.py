"""The fingerprints and imports of snippets, and what they keep between calls."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kaspr_delta.functions.snippet import Snippet

SOURCE = "def key(order):\n    return order['product_id']\n"


@pytest.mark.parametrize(
    "same",
    [
        "# which product\ndef key(order):\n\n    return order['product_id']  # its number\n",
        'def key( order ):\n  return order["product_id"]',
    ],
)
def test_comments_blanks_and_quotes_do_not_change_a_fingerprint(same: str) -> None:
    assert Snippet(same, "key", "elsewhere.yaml", 7).fingerprint == Snippet(SOURCE, "key").fingerprint


TWO = f"{SOURCE}\ndef other(order):\n    return None\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((SOURCE, "key"), (SOURCE.replace("product_id", "product"), "key")),
        ((SOURCE, "key"), (SOURCE.replace("return", "return 1 and"), "key")),
        ((TWO, "key"), (TWO, "other")),
    ],
)
def test_other_code_or_another_entry_point_changes_the_fingerprint(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert Snippet(*one).fingerprint != Snippet(*other).fingerprint


class Garbage:
    """An object whose collection lets other threads run, like that of pyspark's references to the JVM."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(0.001)


@pytest.fixture
def collected_often() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(50, 1, 1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collected_often")
def test_threads_read_snippets_while_garbage_is_collected() -> None:
    source = "".join(f"def f{n}(a):\n    return [a + {n} * (a - 1), a['x']]\n" for n in range(30))

    def look() -> None:
        for _ in range(20):
            Garbage()
            assert Snippet(source, "f0").fingerprint

    with ThreadPoolExecutor(4) as pool:
        for thread in [pool.submit(look) for _ in range(4)]:
            thread.result()


def test_imports_include_modules_and_their_packages_at_any_place() -> None:
    outside = "import os.path as path\nfrom urllib import request\nfrom . import beside\n"
    source = f"{outside}def f(value):\n  from http.client import HTTPSConnection"
    assert Snippet(source, "f").imports >= {"os", "os.path", "urllib", "urllib.request", "http", "http.client"}
    assert "requests" not in Snippet("def f(value): return 'import requests'", "f").imports


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
