from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from kaspr_delta.serde.typed_text import ordered
from kaspr_delta.spec.ddl import Type, columns_of


def kind(text: str) -> Type:
    return columns_of(f"c {text}")[0].type


@pytest.mark.parametrize(
    ("of", "values"),
    [
        (
            "STRUCT<a: INT, b: STRING>",
            [None, {"a": None, "b": "z"}, {"a": 9, "b": None}, {"a": 9, "b": ""}, {"a": 10, "b": None}],
        ),
        ("ARRAY<DECIMAL(3, 1)>", [None, [], [None], [Decimal("9.5")], [Decimal("9.5"), None], [Decimal(10)]]),
        ("DOUBLE", [None, float("-inf"), -1.0, 0.0, float("inf"), float("nan")]),
        ("BINARY", [None, b"", b"\x00", b"\x7f", b"\x80"]),
        ("STRING", [None, "", "Z", "a", "\uffff", "\U00010000"]),
        ("DATE", [None, date(1969, 1, 1), date(2024, 1, 1)]),
        ("BOOLEAN", [None, False, True]),
        ("MAP<STRING, INT>", [None, {}, {"a": None}, {"a": 9}, {"a": 10}, {"b": 0, "a": 10}, {"b": None}]),
    ],
)  # fmt: skip
def test_values_are_ordered_as_spark_orders_them(of: str, values: list[Any]) -> None:
    places = [ordered(kind(of), value) for value in values]
    assert all(one < other for one, other in pairwise(places))
