"""The uses of a table that the source of a function tells."""

from __future__ import annotations

import pytest

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.functions.table_use import table_uses


def uses(body: str, *, windows: bool = False) -> str:
    """The uses of ``t``, in a function of the value ``v``."""
    return ", ".join(sorted(table_uses(Snippet(f"def f(v, t):\n  {body}", "f"), "t", windows=windows)))


@pytest.mark.parametrize(
    "body",
    [
        "return t.get(v)",
        "return t[v]",
        "return v in t and len(t) > 1",
        "return [t[k] for k in t]",
        "for k, row in t.items(): row['x'] = 1",
        "row = t[v]\n  row['x'] = 1\n  return row",
        "t[v]['x'] = 1",
        "return dict(a=list(t), b=t.prefix_scan('x'))",
    ],
)
def test_a_table_that_is_only_read_is_not_written(body: str) -> None:
    assert uses(body) == "reads"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("t[v] = 1", "writes"),
        ("del t[v]", "writes"),
        ("t.update({v: 1})", "writes"),
        ("t[v] += 1", "reads, writes"),
        ("t[v] = t.get(v, 0) + 1", "reads, writes"),
        ("return t.pop(v)", "reads, writes"),
        ("t.setdefault(v, 1)", "reads, writes"),
        ("t[v], other = 1, 2", "writes"),
    ],
)
def test_a_table_that_is_written_is_known(body: str, expected: str) -> None:
    assert uses(body) == expected


@pytest.mark.parametrize("body", ["put(t, v)", "other = t\n  other[v] = 1", "t.put(v)", "t |= v"])
def test_a_table_that_is_given_away_is_perhaps_written(body: str) -> None:
    assert uses(body) == "perhaps writes, reads"


@pytest.mark.parametrize("source", ["def f(v, **given): return v", "def f(*given): return v", "from shop import f"])
def test_a_table_without_a_name_is_perhaps_written(source: str) -> None:
    assert table_uses(Snippet(source, "f"), "t", windows=False) == {"perhaps writes"}


def test_a_table_that_no_line_names_has_no_use() -> None:
    assert uses("return v") == ""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return t[v].current()", "reads"),
        ("t[v].apply(max, 1)", "reads, writes"),
        ("t[v] += 1", "reads, writes"),
        ("entry = t[v]\n  entry.apply(max, 1)", "perhaps writes, reads"),
        ("for k, entry in t.items(): entry.apply(max, 1)", "perhaps writes, reads"),
    ],
)
def test_the_entries_of_a_table_with_windows_can_write(body: str, expected: str) -> None:
    assert uses(body, windows=True) == expected
