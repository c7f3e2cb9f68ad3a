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


@pytest.mark.parametrize(
    ("key", "value"), [("a", {"n": 1}), (1, "number"), ("1", "text"), (("eu", 1), 7), (["eu", 1], 7), ({"id": 1}, 8)]
)
def test_a_key_finds_its_value(key: Any, value: Any) -> None:
    assert table(ROWS)[key] == table(ROWS).get(key) == value


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
def test_of_stored_value_explicit_default_and_class_the_first_wins(given: Any) -> None:
    assert table({'"a"': "0"}, default=list).get("a", given) == 0
    assert table(default=int).get("x", given) == given


def test_written_values_are_read_back_as_copies() -> None:
    rows, value = table(ROWS, default=int), {"list": [1]}
    rows["b"] = value
    value["list"].append(2)
    rows["a"]["n"] = 99
    assert (rows["a"], rows["b"]) == ({"n": 1}, {"list": [1]})
    rows["a"] = 2
    rows["new"] += 5
    assert (rows["a"], rows["new"], "new" in rows) == (2, 5, True)


def test_writing_none_deletes_and_deleting_twice_is_silent() -> None:
    for key in ("a", "never there"):
        rows = table(ROWS)
        rows[key] = None
        assert (key in rows, rows.get(key, "gone")) == (False, "gone")
        del rows[key]
        del rows[key]
        assert key not in rows


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


def test_setdefault_writes_only_missing_keys_and_update_writes_all() -> None:
    rows = table(ROWS)
    assert (rows.setdefault("a", 5), rows.setdefault("b", []), rows["b"]) == ({"n": 1}, [], [])
    rows.update({"a": 1, "b": 2}, c=3)
    assert (rows["a"], rows["b"], rows["c"]) == (1, 2, 3)


def test_items_keys_values_and_len_see_stored_and_new_rows() -> None:
    rows = table(ROWS)
    rows["new"] = 1
    del rows["a"]
    there = {1: "number", "1": "text", ("eu", 1): 7, hashable({"id": 1}): 8, "new": 1}
    assert rows.copy() == dict(rows.items()) == there
    assert len(rows) == len(list(rows.keys())) == len(list(rows.values())) == 5
    assert [rows[key] for key in rows] == list(rows.values())


def test_stored_rows_come_in_the_order_of_their_keys_then_new_rows_and_may_be_changed_meanwhile() -> None:
    rows = table({'"b"': "1", '"a"': "2"})
    rows["A"] = 3
    assert list(rows) == ["a", "b", "A"]
    for key, value in rows.items():
        rows[key] = value * 10
    assert dict(rows) == {"a": 20, "b": 10, "A": 30}


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


def test_a_key_is_read_once_together_with_the_likely_keys_and_not_if_it_was_written() -> None:
    reader = FakeReader({'"a"': "1", '"b"': "2"})
    rows = Table(TableState(table_plan(), reader, likely=lambda: ['"b"', '"c"']))
    rows["new"] = 3
    assert [rows.get(key) for key in ("new", "a", "b", "c", "a", "x", "x")] == [3, 1, 2, None, 1, None, None]
    assert reader.fetched == [{'"a"', '"b"', '"c"'}, {'"x"'}]


def test_a_scan_reads_the_table_once_and_answers_for_all_keys() -> None:
    reader = FakeReader({'"a"': "1"})
    rows = Table(TableState(table_plan(), reader))
    assert (len(rows), list(rows.items()), rows["a"], rows.get("b")) == (1, [("a", 1)], 1, None)
    assert (reader.scans, reader.fetched) == (1, [])


def test_drop_undoes_all_writes_that_were_not_kept() -> None:
    state = table_state({'"a"': "1"})
    rows = Table(state)
    for kept in (1, 2):
        rows["a"], rows["b"] = 3, 3
        rows["a"] = 4
        state.drop()
        assert (rows["a"], "b" in rows) == (kept, False)
        rows["a"] = 2
        state.keep(NOON)


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
