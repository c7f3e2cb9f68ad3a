from __future__ import annotations

from typing import Any

import pytest

from kaspr_delta.functions.column_paths import Picked, Piece, Text, picked
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
def test_a_function_that_only_picks_columns_is_recognized(source: str, paths: Any, several: bool) -> None:
    assert picked(function(source)) == Picked(paths, several)


A, A_TEXT, B_TEXT = (Piece((name,), strict) for name, strict in (("a", False), ("a", True), ("b", True)))


@pytest.mark.parametrize(
    ("returned", "pieces"),
    [
        ("f\"{value['a']}\"", (A,)),
        ("str(value['a'])", (A,)),
        ("f\"<{value['a']!s}>\" 'x'", ("<", A, ">x")),
        ("value['a'] + '-' + value.get('b')", (A_TEXT, "-", B_TEXT)),
        ("value['a'] + (f\"{value['a']}/\" + value['b'])", (A_TEXT, A, "/", B_TEXT)),
    ],
)
def test_a_function_that_makes_text_of_columns_is_recognized(returned: str, pieces: Any) -> None:
    found = picked(function(f"def f(value): return {returned}"))
    assert found == Picked((Text(pieces),), several=False)
    assert picked(function(f"def f(value): return [value['c'], {returned}]")) == Picked(
        (("c",), Text(pieces)), several=True
    )
    assert found is not None
    assert set(found.strict) == {piece.path for piece in pieces if isinstance(piece, Piece) and piece.strict}


def test_a_text_of_columns_is_shown_as_a_template() -> None:
    found = picked(function("def f(value): return value['a'] + f\"-{value['b']}\", value['c']"))
    assert str(found) == "'{a}-{b}', c"


OTHER_RESULTS = [
    "f\"{value['a']:>5}\"",
    "f\"{value['a']!r}\"",
    "f\"{value['a']['b']}\"",
    "f\"{value['a'].lower()}\"",
    "f'{value}'",
    "f'a' + 'b'",
    "value['a'] - value['b']",
    "value['a'] + 1",
    "'%s' % value['a']",
    "str(value['a'], 'utf-8')",
    "value['a'] + value['b'] + value['c'] + value['d']",  # more than three columns that must be text
    "value['a']['b']",  # fails if a is None
    "value['a'].lower()",
    "value.get('a', 'b')",
    "value[0]",
    "other['a']",
    "'a'",
    "(value['a'], 1)",
    "()",
]
OTHER_FUNCTIONS = [
    "def f(value, key): return key",
    "def f(value):\n    print(value)\n    return value['a']",
    "def f(*values): return values[0]",
    "def f(value, *, key): return value['a']",
    "def f(): return None",
    "f = lambda value: value['a']",
    "import json\ndef f(value): return value['a']",
    "def g(value): return value['a']",
    "@staticmethod\ndef f(value): return value['a']",
    "def f(value): return",
    "async def f(value): return value['a']",
    "def f(str): return str(value['a'])",
    "def f(value, str): return str(value['a'])",
]


@pytest.mark.parametrize("source", [*(f"def f(value): return {result}" for result in OTHER_RESULTS), *OTHER_FUNCTIONS])
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
def test_nested_columns_are_picked_or_none_if_any_is_missing(value: Any, one: Any, several: Any) -> None:
    column, columns = Picked.of_names(("a.b",), several=False), Picked.of_names(("a.b", "c"), several=True)
    assert column.function.function({})(value) == one
    assert columns.function.function({})(value) == several
    assert str(columns) == "a.b, c"
