from __future__ import annotations

import pytest

from kaspr_delta.functions.entrypoint import SnippetError, resolve, resolve_statements


@pytest.mark.parametrize(
    ("source", "named", "called"),
    [
        ("from datetime import datetime\n\ndef a(v): ...\n\ndef b(v): ...\n", None, "a"),
        ("async def f(v): ...", None, "f"),
        ("f = lambda v: v", None, "f"),
        ("f: object = lambda v: v", None, "f"),
        ('def f(v):\n    return "\\d"\n', None, "f"),  # a doubtful escape is no error
        ("def helper(v): ...\ndef main(v): ...", "main", "main"),
        ("from operator import itemgetter as f", "f", "f"),
        ("import operator\nf = operator.itemgetter('a')", "f", "f"),
        ("if True:\n    def f(v): ...", "f", "f"),
        ("class f: ...", "f", "f"),
        ("from operator import *", "f", "f"),
    ],
)
def test_the_first_function_written_or_the_named_one_is_called(source: str, named: str | None, called: str) -> None:
    assert resolve(source, named).entrypoint == called


def test_an_unknown_entrypoint_is_refused_with_the_names_of_functions() -> None:
    with pytest.raises(SnippetError, match=r"'c' is not defined by this Python \(functions here: a, b\)") as error:
        resolve("def a(v): ...\ndef b(v): ...\nprint(a)", "c")
    assert error.value.line is None


@pytest.mark.parametrize("source", ["import json", "x = 1", "class A: ...", "# nothing"])
def test_a_snippet_without_a_function_is_refused(source: str) -> None:
    with pytest.raises(SnippetError, match="defines no function"):
        resolve(source)


def test_statements_need_no_function() -> None:
    snippet = resolve_statements("counter = []")
    assert snippet.entrypoint == ""
    assert snippet.run({})["counter"] == []


@pytest.mark.parametrize(
    ("source", "line"),
    [("def f(v):\n    x = 1\n  return x\n", 3), ("x = 1\nreturn x\n", 2), ("x = 1\ny = (\n", 2), ("x\0", 1)],
)
def test_the_line_of_an_error_is_counted_within_the_source(source: str, line: int) -> None:
    with pytest.raises(SnippetError) as error:
        resolve(source, first_line=40)
    assert error.value.line == line
