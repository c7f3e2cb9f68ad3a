"""The uses of a table that the source of a function tells."""

from __future__ import annotations

import pytest

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.functions.table_use import table_uses

READ = [
    "return t.get(v)",
    "return t[v]",
    "return v in t and len(t) > 1",
    "return [t[k] for k in t]",
    "for k, row in t.items(): row['x'] = 1",
    "row = t[v]\n  row['x'] = 1\n  return row",
    "t[v]['x'] = 1",
    "return dict(a=list(t), b=t.prefix_scan('x'))",
]
WRITTEN = ["t[v] = 1", "del t[v]", "t.update({v: 1})", "t[v], other = 1, 2"]
BOTH = ["t[v] += 1", "t[v] = t.get(v, 0) + 1", "return t.pop(v)", "t.setdefault(v, 1)"]
GIVEN_AWAY = ["put(t, v)", "other = t\n  other[v] = 1", "t.put(v)", "t |= v"]
# The entries of a table with windows can write.
WINDOWS_GIVEN_AWAY = ["entry = t[v]\n  entry.apply(max, 1)", "for k, entry in t.items(): entry.apply(max, 1)"]


@pytest.mark.parametrize(
    ("windows", "body", "expected"),
    [
        *((False, body, {"reads"}) for body in READ),
        *((False, body, {"writes"}) for body in WRITTEN),
        *((False, body, {"reads", "writes"}) for body in BOTH),
        *((False, body, {"reads", "perhaps writes"}) for body in GIVEN_AWAY),
        (False, "return v", set()),
        (True, "return t[v].current()", {"reads"}),
        *((True, body, {"reads", "writes"}) for body in ("t[v].apply(max, 1)", "t[v] += 1")),
        *((True, body, {"reads", "perhaps writes"}) for body in WINDOWS_GIVEN_AWAY),
    ],
)
def test_the_uses_of_a_table_are_read_from_the_lines_that_name_it(body: str, windows: bool, expected: set[str]) -> None:
    assert table_uses(Snippet(f"def f(v, t):\n  {body}", "f"), "t", windows=windows) == expected


@pytest.mark.parametrize("source", ["def f(v, **given): return v", "def f(*given): return v", "from shop import f"])
def test_a_table_without_a_name_is_perhaps_written(source: str) -> None:
    assert table_uses(Snippet(source, "f"), "t", windows=False) == {"perhaps writes"}
