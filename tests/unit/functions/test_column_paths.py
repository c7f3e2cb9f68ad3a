from __future__ import annotations

from typing import Any

import pytest

from kaspr_delta.functions.column_paths import Picked, picked
from kaspr_delta.functions.snippet import Snippet


def function(source: str) -> Snippet:
    return Snippet(source, "f")


@pytest.mark.parametrize(
    ("source", "paths", "several"),
    [
        ("def f(value): return value['a']", (("a",),), False),
        ("def f(v, key):\n    'says what'\n    return v.get('a')", (("a",),), False),
        ("def f(v): return (v['a'], v.get('b'))", (("a",), ("b",)), True),
        ("def f(v): return [v['a']]", (("a",),), True),
    ],
)
def test_a_function_that_only_picks_columns_is_known(source: str, paths: Any, several: bool) -> None:
    assert picked(function(source)) == Picked(paths, several)


@pytest.mark.parametrize(
    "source",
    [
        "def f(value): return value['a']['b']",  # fails where a is None
        "def f(value): return value['a'].lower()",
        "def f(value): return value.get('a', 'b')",
        "def f(value): return value[0]",
        "def f(value, key): return key",
        "def f(value): return other['a']",
        "def f(value): return 'a'",
        "def f(value): return (value['a'], 1)",
        "def f(value): return ()",
        "def f(value):\n    print(value)\n    return value['a']",
        "def f(*values): return values[0]",
        "def f(): return None",
        "f = lambda value: value['a']",
        "import json\ndef f(value): return value['a']",
        "def g(value): return value['a']",
        "@staticmethod\ndef f(value): return value['a']",
        "def f(value): return",
        "async def f(value): return value['a']",
    ],
)
def test_any_other_function_is_left_to_python(source: str) -> None:
    assert picked(function(source)) is None


@pytest.mark.parametrize(
    ("value", "one", "several"),
    [
        ({"a": {"b": 1}, "c": 2}, 1, [1, 2]),
        ({"a": {"b": None}, "c": 2}, None, None),
        ({"a": None, "c": 2}, None, None),
        ({"c": 2}, None, None),
        ("text", None, None),
    ],
)
def test_columns_of_json_are_picked_where_they_are(value: Any, one: Any, several: Any) -> None:
    column, columns = Picked.of_names(("a.b",), several=False), Picked.of_names(("a.b", "c"), several=True)
    assert column.function.function({})(value) == one
    assert columns.function.function({})(value) == several
    assert str(columns) == "a.b, c"
