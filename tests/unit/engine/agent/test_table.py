from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kaspr_delta.engine.agent.table import Table
from kaspr_delta.engine.agent.table_state import TableState, Written
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde.table_text import hashable
from kaspr_delta.spec.ddl import columns_of
from tests.unit.engine.agent.agents import NOON, FakeReader, table_plan, table_state

ROWS = {'"a"': '{"n":1}', "1": '"number"', '"1"': '"text"', '["eu",1]': "7", '{"id":1}': "8"}


def table(rows: dict[str, str] | None = None, default: Any = None, **plan: Any) -> Table:
    source = None if default is None else f"def d(): return {default.__name__}"
    return Table(table_state(rows, default=source, **plan))


def test_a_key_finds_its_value() -> None:
    rows = table(ROWS)
    assert rows["a"] == rows.get("a") == {"n": 1}
    assert rows["eu", 1] == rows[["eu", 1]] == 7
    assert rows[{"id": 1}] == 8


def test_a_number_and_its_text_are_different_keys() -> None:
    rows = table(ROWS)
    assert (rows[1], rows["1"]) == ("number", "text")


def test_a_missing_key_raises_keyerror_or_gives_none() -> None:
    rows = table()
    with pytest.raises(KeyError):
        rows["x"]
    assert rows.get("x") is None
    assert "x" not in rows


def test_the_default_is_a_new_instance_each_time_and_is_not_stored() -> None:
    rows = table(default=list)
    rows["x"].append(1)
    assert rows["x"] == rows.get("x") == []
    assert "x" not in rows
    assert len(rows) == 0


@pytest.mark.parametrize("given", [5, None, []])
def test_an_explicit_default_of_get_wins_over_the_class(given: Any) -> None:
    assert table(default=int).get("x", given) == given


def test_a_stored_value_wins_over_every_default() -> None:
    assert table({'"a"': "0"}, default=list).get("a", 5) == 0


def test_written_values_are_read_back() -> None:
    rows = table(ROWS, default=int)
    rows["a"] = 2
    rows["new"] += 5
    assert (rows["a"], rows["new"], "new" in rows) == (2, 5, True)


def test_values_are_copies() -> None:
    rows = table(ROWS)
    rows["a"]["n"] = 99
    value = {"list": [1]}
    rows["b"] = value
    value["list"].append(2)
    assert (rows["a"], rows["b"]) == ({"n": 1}, {"list": [1]})


def test_writing_none_deletes() -> None:
    rows = table(ROWS)
    rows["a"] = None
    assert "a" not in rows
    assert rows.get("a", "gone") == "gone"


def test_deleting_twice_is_silent() -> None:
    rows = table(ROWS)
    del rows["a"]
    del rows["a"]
    del rows["never there"]
    assert "a" not in rows


def test_none_is_a_key_that_is_always_missing() -> None:
    rows = table(ROWS, default=int)
    assert (rows[None], rows.get(None, 7), None in rows, rows.pop(None, 1)) == (0, 7, False, 1)
    with pytest.raises(SerializationError, match="no key"):
        rows[None] = 1


def test_pop_deletes_and_returns() -> None:
    rows = table(ROWS)
    assert rows.pop("a") == {"n": 1}
    assert rows.pop("a", "gone") == "gone"
    with pytest.raises(KeyError):
        rows.pop("a")


def test_setdefault_writes_only_missing_keys() -> None:
    rows = table(ROWS)
    assert rows.setdefault("a", 5) == {"n": 1}
    assert rows.setdefault("b", []) == []
    assert rows["b"] == []


def test_update_writes_all() -> None:
    rows = table(ROWS)
    rows.update({"a": 1, "b": 2}, c=3)
    assert (rows["a"], rows["b"], rows["c"]) == (1, 2, 3)


def test_items_keys_values_and_len_see_stored_and_new_rows() -> None:
    rows = table(ROWS)
    rows["new"] = 1
    del rows["a"]
    there = {1: "number", "1": "text", ("eu", 1): 7, hashable({"id": 1}): 8, "new": 1}
    assert rows.copy() == dict(rows.items()) == there
    assert len(rows) == len(list(rows.keys())) == len(list(rows.values())) == 5


def test_every_key_that_iteration_gives_finds_its_value() -> None:
    rows = table(ROWS)
    assert sorted(str(rows[key]) for key in rows) == sorted(str(value) for value in rows.values())


def test_stored_rows_come_in_the_order_of_their_keys_then_new_rows() -> None:
    rows = table({'"b"': "1", '"a"': "2"})
    rows["A"] = 3
    assert list(rows) == ["a", "b", "A"]


def test_a_row_may_be_changed_while_rows_are_listed() -> None:
    rows = table({'"a"': "1", '"b"': "2"})
    for key, value in rows.items():
        rows[key] = value * 10
    assert dict(rows) == {"a": 10, "b": 20}


def test_rows_whose_key_is_not_canonical_are_left_out() -> None:
    rows = table({"P100": "1", '{"b":1,"a":1}': "2", "null": "3", '"a"': "4"})
    assert dict(rows) == {"a": 4}
    assert len(rows) == 1


def test_prefix_scan_gives_the_rows_whose_key_begins_with_the_prefix() -> None:
    rows = table({'"u:1"': "1", '"u:2"': "2", '"v:1"': "3", "1": "4"})
    rows["u:3"] = 5
    assert dict(rows.prefix_scan("u:")) == {"u:1": 1, "u:2": 2, "u:3": 5}


def test_raw_tables_have_bytes() -> None:
    rows = table(serializers=Serializers("raw", "raw"))
    rows[b"u:1"] = "text"
    assert rows["u:1"] == b"text"
    assert dict(rows.items()) == {b"u:1": b"text"}
    assert list(rows.prefix_scan("u:")) == list(rows.prefix_scan(b"u:")) == [(b"u:1", b"text")]
    with pytest.raises(SerializationError):
        rows["k"] = 5


def test_clear_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="'counts' cannot be cleared"):
        table(ROWS).clear()


@pytest.mark.parametrize("value", [float("nan"), object(), "\ud800"])
def test_a_value_without_json_text_is_refused(value: Any) -> None:
    rows = table()
    with pytest.raises(SerializationError):
        rows["a"] = value
    assert "a" not in rows


def test_likely_keys_are_fetched_with_the_first_look_up() -> None:
    reader = FakeReader({'"a"': "1", '"b"': "2"})
    state = TableState(table_plan(), reader, lambda: ['"b"', '"c"'])
    rows = Table(state)
    assert (rows["a"], rows["b"], rows.get("c")) == (1, 2, None)
    assert reader.fetched == [{'"a"', '"b"', '"c"'}]


def test_a_key_is_read_once() -> None:
    reader = FakeReader({'"a"': "1"})
    rows = Table(TableState(table_plan(), reader))
    for key in ("a", "x", "a", "x"):
        rows.get(key)
    assert reader.fetched == [{'"a"'}, {'"x"'}]


def test_a_key_that_was_written_is_not_read() -> None:
    reader = FakeReader()
    rows = Table(TableState(table_plan(), reader))
    rows["a"] = 1
    assert rows["a"] == 1
    assert reader.fetched == []


def test_a_scan_reads_the_table_once_and_answers_for_all_keys() -> None:
    reader = FakeReader({'"a"': "1"})
    rows = Table(TableState(table_plan(), reader))
    assert (len(rows), list(rows.items()), rows["a"], rows.get("b")) == (1, [("a", 1)], 1, None)
    assert (reader.scans, reader.fetched) == (1, [])


def test_drop_undoes_only_writes_that_were_not_kept() -> None:
    state = table_state({'"a"': "1"})
    rows = Table(state)
    rows["a"] = 2
    state.keep(NOON)
    rows["a"], rows["b"] = 3, 3
    state.drop()
    assert (rows["a"], "b" in rows) == (2, False)


def test_drop_undoes_all_writes_of_one_key() -> None:
    state = table_state({'"a"': "1"})
    rows = Table(state)
    rows["a"] = 2
    rows["a"] = 3
    state.drop()
    assert rows["a"] == 1


def test_the_last_write_of_a_key_is_kept_with_its_time() -> None:
    state, later = table_state(), NOON + 1_000_000
    rows = Table(state)
    rows["a"] = 1
    rows["b"] = 1
    state.keep(NOON)
    rows["a"] = 2
    del rows["b"]
    state.keep(later)
    assert state.written == {'"a"': Written("2", later), '"b"': Written(None, later)}


def test_a_table_that_others_write_is_only_read() -> None:
    typed = TypedPlan(("id",), columns_of("id BIGINT, n BIGINT"), source="main.sales.orders")
    rows = Table(TableState(replace(table_plan(), typed=typed), FakeReader({"1": '{"id":1,"n":2}'})))
    assert rows[1] == {"id": 1, "n": 2}
    with pytest.raises(TypeError, match="others write"):
        rows[1] = {"id": 1, "n": 3}
