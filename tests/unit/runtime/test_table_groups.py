from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.runtime.table_groups import TableGroups

REFS = [ResourceRef("agent", name) for name in "abcde"]


class ClassicSession:
    """A session of this process."""


def session_on_connect() -> Any:
    return type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()


def runs(groups: str) -> Any:
    """A fake run for each resource; its table group is the digit at its position."""
    resources = [SimpleNamespace(table_group=group) for group in groups]
    return {ref: SimpleNamespace(resource=resource) for ref, resource in zip(REFS, resources, strict=True)}


def namespace(*, bind: bool) -> Any:
    return SimpleNamespace(locks_bind_other_processes=bind)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [("12345", ["abcde"]), ("11234", ["acde", "b"]), ("12121", ["ab", "cd", "e"]), ("11111", list("abcde"))],
)
def test_agents_that_share_tables_run_one_at_a_time(groups: str, expected: list[str]) -> None:
    apart = TableGroups(session_on_connect(), namespace(bind=False), runs(groups)).apart(REFS)
    assert ["".join(ref.name for ref in refs) for refs in apart] == expected


@pytest.mark.parametrize(
    ("session", "bind"), [(session_on_connect(), True), (ClassicSession(), False), (ClassicSession(), True)]
)
def test_agents_run_at_once_where_their_batches_exclude_each_other(session: Any, bind: bool) -> None:
    groups = TableGroups(session, namespace(bind=bind), runs("11111"))
    assert groups.apart(REFS) == [REFS]
    with groups.held(REFS):  # takes no lock: the fake namespace has none
        pass
