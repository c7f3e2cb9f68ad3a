from __future__ import annotations

import pytest

from kaspr_delta.functions.entrypoint import SnippetError, resolve, resolve_statements


def test_the_first_function_written_is_called() -> None:
    assert resolve("from datetime import datetime\n\ndef a(v): ...\n\ndef b(v): ...\n").entrypoint == "a"


@pytest.mark.parametrize("source", ["async def f(v): ...", "f = lambda v: v", "f: object = lambda v: v"])
def test_coroutines_and_named_lambdas_are_functions(source: str) -> None:
    assert resolve(source).entrypoint == "f"


def test_a_named_entrypoint_is_called() -> None:
    snippet = resolve("def helper(v):\n    return v + 1\n\ndef main(v):\n    return helper(v)\n", "main")
    assert snippet.function({})(1) == 2


@pytest.mark.parametrize(
    "source",
    [
        "from operator import itemgetter as f",
        "import operator\nf = operator.itemgetter('a')",
        "if True:\n    def f(v): ...",
        "class f: ...",
        "from operator import *",
    ],
)
def test_a_named_entrypoint_may_be_bound_in_any_way(source: str) -> None:
    assert resolve(source, "f").entrypoint == "f"


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


def test_a_doubtful_escape_is_no_error() -> None:
    assert resolve('def f(v):\n    return "\\d"\n').entrypoint == "f"
