from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from tests.oracle import outputs
from tests.oracle.case import Emission, text
from tests.oracle.outputs import Result, TableOutput, differences_by_run
from tests.oracle.wrapping import StrayResultError


def change(run: int, key: str, value: Any, number: int = 0) -> Result:
    return Result(run, number, Emission(text(key), None if value is None else text(value), run))


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        pytest.param(
            [change(0, "k", 1), change(0, "j", 1), change(0, "k", 2), change(1, "k", 3)],
            [change(0, "k", 2), change(0, "j", 1), change(1, "k", 3)],
            id="only the last change of a key in a run counts",
        ),
        pytest.param([change(0, "k", 1), change(1, "k", 1)], [change(0, "k", 1)], id="an unchanged row"),
        pytest.param(
            [change(0, "k", 1), change(1, "k", None), change(1, "k", 1)], [change(0, "k", 1)], id="a replaced row"
        ),
        pytest.param(
            [change(0, "k", 1), change(1, "k", None), change(2, "k", None), change(3, "k", 1)],
            [change(0, "k", 1), change(1, "k", None), change(3, "k", 1)],
            id="a deleted row is a tombstone once",
        ),
        pytest.param([change(0, "k", 1), change(0, "k", None)], [], id="a row that came and went"),
        pytest.param(
            [change(0, "k", 1), change(1, "k", 1, number=1)],
            [change(0, "k", 1), change(1, "k", 1, number=1)],
            id="the same key of another case is another row",
        ),
    ],
)
def test_the_differences_of_a_run_are_the_rows_that_it_has_changed(changes: list[Result], kept: list[Result]) -> None:
    assert list(differences_by_run(changes)) == kept


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


@pytest.fixture
def emissions(monkeypatch: pytest.MonkeyPatch) -> Any:
    def read(*rows: dict[str, Any]) -> Sequence[Result]:
        usual = {"key": '[3,"k"]', "value": "2", "timestamp": at(7), "_change_type": "insert", "_commit_version": 4}
        monkeypatch.setattr(outputs, "changes", lambda *_: [{**usual, **row} for row in rows])
        app: Any = SimpleNamespace()
        return list(TableOutput(lambda value: {"count": value}).emissions(app, "t", lambda version: version * 10))

    return read


def test_a_change_of_a_table_is_an_emission_of_its_case(emissions: Any) -> None:
    assert emissions({}) == [Result(40, 3, Emission('"k"', '{"count":2}', 7))]


def test_the_window_of_a_row_is_part_of_its_key(emissions: Any) -> None:
    (found,) = emissions({"window_start": at(10), "window_end": at(20)})
    assert found.emission.key == '{"end":20,"key":"k","start":10}'


def test_a_row_without_a_value_is_an_emission_without_a_value(emissions: Any) -> None:
    gone = {"value": None, "_commit_version": 5, "_change_type": "update_postimage"}
    assert [found.emission.value for found in emissions({}, gone)] == ['{"count":2}', None]


def test_a_row_without_a_key_is_an_error(emissions: Any) -> None:
    with pytest.raises(StrayResultError, match="key null with value 2 belongs to no case"):
        emissions({"key": None})
