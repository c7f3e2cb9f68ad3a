from __future__ import annotations

from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest

from kaspr_delta.engine.rows.local_rows import LocalRows, are_few, union_all
from kaspr_delta.engine.rows.rows import exists, first_of, later, same, text, with_problem
from kaspr_delta.storage.limits import Limits
from tests.slices import NO_SPARK, as_slice_of_larger_table, listed


def rows(**columns: Any) -> LocalRows:
    return LocalRows(NO_SPARK, as_slice_of_larger_table(pa.table(columns)))


def test_rows_are_counted_without_spark_and_no_rows_without_columns() -> None:
    counted = rows(kind=["a", "b", "a"], target=["x", "x", "x"]).count_by("kind", "target")
    assert counted == {("a", "x"): 2, ("b", "x"): 1}
    assert rows(key=pa.array([], pa.string())).count_by("kind") == {}


def test_distinct_gives_each_text_once_without_null() -> None:
    assert rows(key=["a", "b", "a", None]).distinct("key") == ["a", "b"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("left", [("a", {"n": 1}), ("b", None), (None, None)]),
        ("inner", [("a", {"n": 1})]),
        ("left_semi", [("a",)]),
        ("left_anti", [("b",), (None,)]),
    ],
)
def test_a_join_takes_nested_columns_and_never_matches_null(how: Any, expected: list[tuple[Any, ...]]) -> None:
    other = rows(key=["a", None, "c"], row=[{"n": 1}, {"n": 2}, {"n": 3}])
    assert [tuple(row.values()) for row in listed(rows(key=["a", "b", None]).join(other, "key", how))] == expected


def test_the_newest_row_of_a_key_is_the_greatest_and_null_is_less_than_any() -> None:
    several = rows(key=["a", "a", "b", "a"], at=[1, None, None, 1], value=["x", "z", "y", "w"], more=[1, 2, 3, 4])
    found = several.newest(("key",), ("at", "value"), "copies")
    assert sorted(map(str, listed(found))) == [
        str({"key": "a", "at": 1, "value": "x", "more": 1, "copies": 3}),
        str({"key": "b", "at": None, "value": "y", "more": 3, "copies": 1}),
    ]


def test_a_join_on_several_columns_never_matches_null() -> None:
    left = rows(key=["a", "a", "b", None], n=[1, 2, 1, 1])
    right = rows(key=["a", "b", None], n=[2, 1, 1], more=["x", "y", "z"])
    assert [tuple(row.values()) for row in listed(left.join(right, ["key", "n"], "inner"))] == [
        ("a", 2, "x"),
        ("b", 1, "y"),
    ]
    assert [row["key"] for row in listed(left.join(right, ["key", "n"], "left_anti"))] == ["a", None]


def test_the_greatest_value_so_far_is_that_of_its_group_and_null_changes_nothing() -> None:
    given = rows(group=["a", "b", "a", "a", "b"], place=[3, 1, 1, 2, 2], value=[1, None, 2, None, 5])
    found = given.so_far("so_far", "value", ("group",), ("place",))
    by_place = {(row["group"], row["place"]): row["so_far"] for row in listed(found)}
    assert by_place == {("a", 1): 2, ("a", 2): 2, ("a", 3): 2, ("b", 1): None, ("b", 2): 5}


def test_the_least_value_leaves_null_out() -> None:
    assert rows(n=[3, None, 2]).least("n") == 2
    assert rows(n=pa.array([], pa.int64())).least("n") is None


def test_each_gives_a_row_for_each_case_that_holds() -> None:
    old, new = nw.col("old"), nw.col("new")
    found = rows(old=["a", None, "b"], new=["c", "d", None]).each(
        (exists("old"), {"op": text("subtract"), "key": old}), (exists("new"), {"op": text("add"), "key": new})
    )
    assert sorted((row["op"], row["key"]) for row in listed(found)) == [
        ("add", "c"),
        ("add", "d"),
        ("subtract", "a"),
        ("subtract", "b"),
    ]


def test_rows_are_numbered_in_order_null_first() -> None:
    assert listed(rows(key=["b", None, "a"]).numbered("key")) == [
        {"key": None, "seq": 0},
        {"key": "a", "seq": 1},
        {"key": "b", "seq": 2},
    ]
    found = rows(key=["b", "a", "b"], place=[2, 3, 1]).numbered("key", "place")
    assert [row["place"] for row in listed(found)] == [3, 1, 2]


def test_a_union_fills_missing_columns_with_null() -> None:
    both = rows(key=["a"], n=[1]).union(rows(key=["b"], text=["x"]))
    assert listed(both) == [{"key": "a", "n": 1, "text": None}, {"key": "b", "n": None, "text": "x"}]
    assert listed(union_all([rows(other=pa.array([], pa.string())), rows(key=["a"])])) == [{"key": "a"}]


@pytest.mark.parametrize("number", [3, 1, 0])
def test_expressions_give_a_value_for_each_of_any_number_of_rows(number: int) -> None:
    some = rows(
        key=pa.array(["a", "b", None][:number], pa.string()), other=pa.array(["a", None, None][:number], pa.string())
    )
    found = some.with_columns(
        same=same("key", "other"),
        kind=first_of((~exists("key"), text("none")), (nw.col("key") == "a", text("first")), otherwise=text("other")),
        nothing=text(None),
        number=nw.lit(1),
    )
    expected = [
        {"key": "a", "other": "a", "same": True, "kind": "first", "nothing": None, "number": 1},
        {"key": "b", "other": None, "same": False, "kind": "other", "nothing": None, "number": 1},
        {"key": None, "other": None, "same": True, "kind": "none", "nothing": None, "number": 1},
    ]
    assert listed(found) == expected[:number]


@pytest.mark.parametrize("number", [3, 1, 0])
def test_a_row_keeps_its_first_problem(number: int) -> None:
    some = rows(key=pa.array(["a", "b", "c"][:number], pa.string()))
    failed = with_problem(some, nw.col("key") == "a", reason=text("first"), detail=text("d"), value=text(None))
    again = with_problem(failed, nw.col("key") != "c", reason=text("second"), detail=text("d"), value=nw.col("key"))
    expected = [
        {"reason": "first", "detail": "d", "value": None},
        {"reason": "second", "detail": "d", "value": "b"},
        None,
    ]
    assert [row["problem"] for row in listed(again)] == expected[:number]
    assert again.columns == ["key", "problem"]


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(1, 2, 2), (2, 1, 2), (None, 1, 1), (1, None, 1), (None, None, None)]
)
def test_later_gives_the_later_time_and_ignores_null(one: int | None, other: int | None, expected: int | None) -> None:
    times = {name: pa.array([value], pa.int64()) for name, value in (("one", one), ("other", other))}
    found = rows(**times).select(later(nw.col("one"), nw.col("other")).alias("later"))
    assert listed(found) == [{"later": expected}]


def test_are_few_counts_all_rows_together() -> None:
    half = rows(n=list(range(1_500)))
    assert are_few(Limits(), half)
    assert not are_few(Limits(), half, half)
