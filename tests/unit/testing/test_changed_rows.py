from __future__ import annotations

from typing import Any

from kaspr_delta.testing.changed_rows import ChangedRow, changed_fields, changed_rows


def row(key: Any, value: Any, **more: Any) -> dict[str, Any]:
    return {"key": key, "value": value, **more}


def test_rows_are_added_removed_or_changed_by_key() -> None:
    before = [row("a", 1), row("b", 2), row("c", 3)]
    assert changed_rows(before, [row("c", 3), row("b", 4), row("d", 5)]) == [
        ChangedRow('"a"', {"value": 1}, None),
        ChangedRow('"b"', {"value": 2}, {"value": 4}),
        ChangedRow('"d"', None, {"value": 5}),
    ]
    assert [one.kind for one in changed_rows(before, [row("b", 4), row("d", 5)])] == [
        "removed",
        "changed",
        "removed",
        "added",
    ]


def test_the_place_and_the_time_of_a_record_do_not_count_and_other_headers_do() -> None:
    old = row("a", 1, timestamp=1, offset=1, partition=0, headers={})
    assert not changed_rows([old], [row("a", 1, timestamp=2, offset=9, partition=3, headers=None)])
    (changed,) = changed_rows([old], [{**old, "headers": {"x": "y"}}])
    assert changed.after == {"value": 1, "headers": {"x": "y"}}


def test_equal_records_of_a_key_are_taken_out_as_often_as_both_have_them() -> None:
    assert changed_rows([row("a", 1), row("a", 2), row("a", 1)], [row("a", 2), row("a", 1), row("a", 3)]) == [
        ChangedRow('"a"', {"value": 1}, {"value": 3})
    ]
    assert changed_rows([row("a", 1)], [row("a", 1), row("a", 1)]) == [ChangedRow('"a"', None, {"value": 1})]


def test_a_key_has_its_type_and_its_window() -> None:
    assert [one.key for one in changed_rows([row("1", 0)], [row(1, 0)])] == ['"1"', "1"]
    assert changed_rows([row("a", 0, window_start="10:00")], [row("a", 1, window_start="11:00")]) == [
        ChangedRow('"a" 10:00', {"value": 0}, None),
        ChangedRow('"a" 11:00', None, {"value": 1}),
    ]


def test_a_changed_field_has_its_path_and_both_values() -> None:
    before, after = {"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"b": 1, "c": [2]}, "e": None}
    assert list(changed_fields(before, after)) == [("a.c", [1], [2]), ("d", 1, ...), ("e", ..., None)]
    assert list(changed_fields({"a": 1}, {"a": True})) == [("a", 1, True)]
