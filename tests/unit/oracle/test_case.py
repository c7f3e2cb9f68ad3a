from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.__main__ import VISIBLE
from tests.oracle.case import CasesError, Emission, Event, load

CASE: dict[str, Any] = {
    "name": "a case",
    "shape": "fk-table-table",
    "type": "inner",
    "params": {"fk_field": "fk"},
    "tags": [],
    "events": [{"side": "left", "key": "k", "value": {"fk": "A"}, "ts": 10}],
    "expected": {"emitted": [[{"key": "k", "value": None, "ts": 10}]], "final": {}},
}


def written(folder: Path, content: str) -> Path:
    file = folder / "cases.json"
    file.write_text(content)
    return file


def test_a_case_has_the_events_and_emissions_of_its_file(tmp_path: Path) -> None:
    (case,) = load(written(tmp_path, json.dumps([CASE])))
    assert case.events == (Event("left", "k", {"fk": "A"}, 10),)
    assert case.expected.emitted == ((Emission('"k"', None, 10),),)
    assert case.expected.final == {}


def test_all_recorded_cases_can_be_read() -> None:
    assert sum(len(load(file)) for file in VISIBLE.glob("*.json")) == 690


def test_rows_of_windows_have_objects_for_keys(tmp_path: Path) -> None:
    row = {"key": {"start": 0, "key": "k"}, "value": {"count": 1}}
    expected = {"emitted": [[]], "final": [row]}
    (case,) = load(written(tmp_path, json.dumps([{**CASE, "expected": expected}])))
    assert case.expected.final == {'{"key":"k","start":0}': '{"count":1}'}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[{", "Invalid JSON: "),
        ("{}", "Input should be a valid array"),
        (json.dumps([CASE, {}]), "case 2 name: Field required"),
        (json.dumps([{**CASE, "events": [{"side": "up"}]}]), "case 1 events 1 side: Input should be 'left' or 'right'"),
        (json.dumps([{**CASE, "events": []}]), "a case: 0 events, but emissions of 1"),
        (json.dumps([{**CASE, "expected": {"emitted": [[]], "final": [1]}}]), "case 1 expected final: Value error, a"),
    ],
)
def test_a_malformed_file_is_an_error_in_one_line(tmp_path: Path, content: str, sentence: str) -> None:
    with pytest.raises(CasesError) as caught:
        load(written(tmp_path, content))
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CasesError, match=r"^the file cannot be read: "):
        load(tmp_path)
