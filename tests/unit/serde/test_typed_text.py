from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.plan.definition.typed_tables import TypedPlan, changed_columns
from kaspr_delta.serde.table_text import TableText
from kaspr_delta.serde.typed_text import PairText, TypedText
from kaspr_delta.spec.ddl import Type, columns_of

JSON = Serializers("json", "json")
ORDERS = TypedText(JSON, TypedPlan(("id",), columns_of("id BIGINT, price DECIMAL(5, 2)")))
PLACES = TypedText(JSON, TypedPlan(("country", "zip"), columns_of("country STRING, zip INT, name STRING")))


def test_a_key_has_the_values_of_its_columns() -> None:
    assert (ORDERS.key(7), PLACES.key(("DE", 10115))) == ("7", '["DE",10115]')
    assert (ORDERS.key_object("7"), PLACES.key_object('["DE",10115]')) == (7, ("DE", 10115))


@pytest.mark.parametrize("key", ["DE", ("DE",), ("DE", 1, 2), (1, "DE"), None])
def test_a_key_of_several_columns_needs_a_value_for_each_column(key: Any) -> None:
    with pytest.raises(SerializationError):
        PLACES.key(key)


def test_a_foreign_key_with_a_null_column_is_none() -> None:
    assert PLACES.foreign_key(("DE", None)) is None
    assert PLACES.foreign_key(["DE", 1]) == '["DE",1]'


def test_a_row_has_the_key_under_which_it_is_written() -> None:
    text = PLACES.row(("DE", 10115), {"name": "Mitte", "zip": 1})
    assert text is not None
    assert PLACES.value_object(text) == {"country": "DE", "zip": 10115, "name": "Mitte"}
    assert ORDERS.row(7, None) is None
    with pytest.raises(SerializationError, match="the row is STRUCT"):
        ORDERS.row(7, "text")


@pytest.mark.parametrize(
    ("text", "is_key"), [("7", True), ("7.0", False), ('"7"', False), ("07", False), ("null", False), ("[7]", False)]
)
def test_only_the_canonical_spelling_is_a_key(text: str, is_key: bool) -> None:
    assert ORDERS.is_key(text) is is_key


def test_each_side_of_a_pair_is_read_by_its_own_types() -> None:
    pair = PairText(JSON, ORDERS, TableText(JSON))
    assert pair.value_object('{"left":{"id":1,"price":2.50},"right":{"price":2.50}}') == {
        "left": {"id": 1, "price": Decimal("2.50")},
        "right": {"price": 2.5},
    }
    nested = PairText(JSON, pair, ORDERS)
    read = nested.value_object('{"left":{"left":{"id":1,"price":2},"right":null},"right":null}')
    assert read == {"left": {"left": {"id": 1, "price": Decimal("2.00")}, "right": None}, "right": None}
    assert isinstance(read["left"]["left"]["price"], Decimal)
    assert (nested.key(1), nested.event_key("1"), nested.is_key('"1"'), nested.foreign_key(1)) == ("1", 1, False, "1")


def struct(text: str) -> Type:
    return Type("STRUCT", fields=columns_of(text))


def test_new_columns_are_added_and_other_changes_are_named() -> None:
    added, differences = changed_columns(
        struct("a INT, s STRUCT<x: INT, gone: INT>, b STRING"),
        struct("b INT, s STRUCT<x: INT, `new.one`: DATE>, c DATE"),
    )
    assert [(path, str(kind)) for path, kind in added] == [(("s", "new.one"), "DATE"), (("c",), "DATE")]
    assert differences == ["column 'a' is gone", "column 'b' was STRING and is INT", "column 's.gone' is gone"]
    assert changed_columns(struct("a INT"), struct("a INT")) == ([], [])
