"""Foreign keys of typed tables: those that Spark computes instead of Python."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kaspr_delta.functions.column_paths import Picked
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from kaspr_delta.plan.definition.typed_joins import foreign_key_types, type_problems
from kaspr_delta.spec.ddl import columns_of
from tests.unit.plan.shop import Manifest, errors, plan

COLUMNS = "id STRING, text STRING, n BIGINT, day DATE, at TIMESTAMP, price DECIMAL(10, 2), share DOUBLE, yes BOOLEAN"


def both(returned: str, right: str) -> tuple[Manifest, ...]:
    function = f"extractor:\n  python: |\n    def fk(value):\n        return {returned}"
    return (
        ("KasprTable", "left", f"schema: {COLUMNS}\nkey: id"),
        ("KasprTable", "right", right),
        ("KasprJoin", "both", f"leftTable: left\nrightTable: right\n{function}"),
    )


def types_of(returned: str, right: str = "schema: key STRING\nkey: key") -> list[str]:
    built = plan(*both(returned, right))
    (join,) = built.joins
    assert isinstance(join, ForeignKeyJoinPlan)
    return [str(one) for one in foreign_key_types(built, join)]


@pytest.mark.parametrize(
    "returned", ["value['text']", "f\"{value['n']}/{value['day']}/{value['text']}\"", "value['text'] + str(value['n'])"]
)
def test_text_of_columns_that_python_and_spark_spell_alike_is_computed_by_spark(returned: str) -> None:
    assert types_of(returned) == ["STRING"]
    assert types_of(returned, "name: right") == ["STRING"]  # the right table's keys are JSON


@pytest.mark.parametrize(
    "returned",
    [
        *(f"f\"{{value['{name}']}}\"" for name in ("at", "price", "share", "yes", "missing")),
        "value['text'] + value['n']",  # fails in Python
        "value['n'] + value['n']",  # is a number
    ],
)
def test_other_text_is_left_to_python(returned: str) -> None:
    assert types_of(returned) == []


def test_text_may_be_a_part_of_a_key() -> None:
    right = "schema: n BIGINT, key STRING\nkey: [n, key]"
    assert types_of("[value['n'], f\"{value['day']}\"]", right) == ["BIGINT", "STRING"]


@pytest.mark.parametrize(
    ("returned", "key", "message"),
    [
        (
            "f\"{value['day']}/{value['n']}\"",
            "INT",
            "join 'both': '{day}/{n}' of 'left' is STRING, and the key of 'right' is INT: they are never equal",
        ),
        # Spark reports such a column as a STRING, so the table would never match its declaration.
        ("value['text']", "VARCHAR(3)", "column 'key' is VARCHAR(3): Spark has no VARCHAR but in tables"),
    ],
)
def test_a_key_that_can_never_be_equal_is_refused(returned: str, key: str, message: str) -> None:
    (refused,) = errors(*both(returned, f"schema: key {key}\nkey: key"))
    assert refused.message == message


def join(name: str, left: str, column: str, select: str = "") -> Manifest:
    selected = f"\nselect: {{columns: {{{select}}}}}" if select else ""
    return "KasprJoin", name, f"leftTable: {left}\nrightTable: orders\ncolumn: {column}{selected}"


def test_types_are_not_checked_while_columns_of_a_table_are_unknown() -> None:
    built = plan(
        ("KasprTable", "lines", "source: {table: main.shop.lines, key: [id]}"),
        ("KasprTable", "orders", "schema: id STRING, day DATE\nkey: id"),
        join("first", "lines", "order", "line: left.id, day: right.day"),
        join("second", "lines", "order"),
        join("of-columns", "first", "line", "line: left.line, day: right.day"),
        join("of-pairs", "second", "left.order", "day: left.right.day"),
    )
    lines = built.known_table("lines")
    assert lines.typed is not None
    seen = replace(lines, typed=replace(lines.typed, columns=columns_of("id STRING, order STRING")))
    known = replace(built, tables=(seen, built.known_table("orders")))
    right = built.join("of-columns")
    assert isinstance(right, ForeignKeyJoinPlan)
    wrong = replace(right, picked=Picked.of_names(("lien",), several=False))
    assert not [*type_problems(built, right), *type_problems(built, wrong), *type_problems(known, right)]
    assert [misfit.message for misfit in type_problems(known, wrong)] == ["'first' has no column 'lien'"]
