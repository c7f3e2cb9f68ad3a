from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.turns import Turns

REFS = [ResourceRef("agent", name) for name in "abcde"]


class Classic:
    """A session of this process."""


def session_on_connect() -> Any:
    return type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()


def queries(turns: str) -> Any:
    """By resource a query whose turn is the letter at its place."""
    return {ref: SimpleNamespace(resource=SimpleNamespace(turn=turn)) for ref, turn in zip(REFS, turns, strict=True)}


def namespace(*, bind: bool) -> Any:
    return SimpleNamespace(turns_bind_other_processes=bind)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [("12345", ["abcde"]), ("11234", ["acde", "b"]), ("12121", ["ab", "cd", "e"]), ("11111", list("abcde"))],
)
def test_of_those_that_share_tables_one_runs_at_a_time(turns: str, expected: list[str]) -> None:
    apart = Turns(session_on_connect(), namespace(bind=False), queries(turns)).apart(REFS)
    assert ["".join(ref.name for ref in refs) for refs in apart] == expected


@pytest.mark.parametrize(("session", "bind"), [(session_on_connect(), True), (Classic(), False), (Classic(), True)])
def test_all_run_at_once_where_their_batches_exclude_each_other(session: Any, bind: bool) -> None:
    turns = Turns(session, namespace(bind=bind), queries("11111"))
    assert turns.apart(REFS) == [REFS]
    with turns.held(REFS):  # nothing is locked: the namespace has no locks to give
        pass
