from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.oracle import outputs
from tests.oracle.case import Emission, text
from tests.oracle.outputs import Result, TableOutput, differences_by_run
from tests.oracle.wrapping import StrayResultError
from tests.unit.oracle.echo import at


def change(run: int, key: str, value: Any, ts: int = 0, number: int = 0) -> Result:
    return Result(run, number, Emission(text(key), None if value is None else text(value), ts))


def test_only_the_last_change_of_a_key_in_a_run_counts() -> None:
    changes = [change(0, "k", 1), change(0, "j", 1), change(0, "k", 2, ts=5), change(1, "k", 3)]
    assert list(differences_by_run(changes)) == [change(0, "k", 2, ts=5), change(0, "j", 1), change(1, "k", 3)]


def test_a_row_that_was_written_again_unchanged_is_no_difference() -> None:
    assert list(differences_by_run([change(0, "k", 1), change(1, "k", 1, ts=9)])) == [change(0, "k", 1)]
    replaced = [change(0, "k", 1), change(1, "k", None), change(1, "k", 1)]
    assert list(differences_by_run(replaced)) == [change(0, "k", 1)]


def test_a_row_that_was_deleted_is_a_tombstone_once() -> None:
    changes = [change(0, "k", 1), change(1, "k", None), change(2, "k", None), change(3, "k", 1)]
    assert list(differences_by_run(changes)) == [change(0, "k", 1), change(1, "k", None), change(3, "k", 1)]


def test_a_row_that_came_and_went_in_a_run_is_no_difference() -> None:
    assert list(differences_by_run([change(0, "k", 1), change(0, "k", None)])) == []


def test_the_same_key_of_another_case_is_another_row() -> None:
    changes = [change(0, "k", 1), change(1, "k", 1, number=1)]
    assert list(differences_by_run(changes)) == changes


def emissions(monkeypatch: pytest.MonkeyPatch, *rows: Mapping[str, Any]) -> list[Result]:
    monkeypatch.setattr(outputs, "changes", lambda app, name: rows)  # noqa: ARG005
    app: Any = SimpleNamespace()
    return list(TableOutput(lambda value: {"count": value}).emissions(app, "t", lambda version: version * 10))


def row(**columns: Any) -> dict[str, Any]:
    usual = {"key": '[3,"k"]', "value": "2", "timestamp": at(7), "_change_type": "insert", "_commit_version": 4}
    return {**usual, **columns}


def test_a_change_of_a_table_is_an_emission_of_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    assert emissions(monkeypatch, row()) == [Result(40, 3, Emission('"k"', '{"count":2}', 7))]


def test_the_window_of_a_row_is_part_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = emissions(monkeypatch, row(window_start=at(10), window_end=at(20)))
    assert found.emission.key == '{"end":20,"key":"k","start":10}'


def test_a_row_without_a_value_is_an_emission_without_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = row(value=None, _commit_version=5, _change_type="update_postimage")
    assert [found.emission.value for found in emissions(monkeypatch, row(), gone)] == ['{"count":2}', None]


def test_a_row_without_a_key_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StrayResultError, match="key null with value 2 belongs to no case"):
        emissions(monkeypatch, row(key=None))
