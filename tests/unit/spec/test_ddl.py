from __future__ import annotations

from typing import Any

import pytest

from kaspr_delta.spec.ddl import Column, Type, columns_of, columns_of_json, comments_of


def test_columns_are_read_as_spark_writes_them() -> None:
    text = "id string, `unit price` decimal( 10,2 ) NOT NULL COMMENT 'in \\'EUR\\'', n: INT, at TIMESTAMP_NTZ"
    assert columns_of(text) == (
        Column("id", Type("STRING")),
        Column("unit price", Type("DECIMAL", (10, 2))),
        Column("n", Type("INT")),
        Column("at", Type("TIMESTAMP_NTZ")),
    )


def test_comments_are_read_as_spark_reads_them() -> None:
    text = r"a INT COMMENT 'it\'s \u0041\n', b INT COMMENT '', c STRUCT<d: INT COMMENT 'no'> COMMENT 'yes', e INT"
    assert comments_of(text) == {"a": "it's A\n", "c": "yes"}


def test_nested_types_are_read() -> None:
    (column,) = columns_of("items ARRAY<STRUCT<sku: STRING, `of it`: MAP<STRING, ARRAY<DOUBLE>>>>")
    assert str(column) == "`items` ARRAY<STRUCT<`sku`: STRING, `of it`: MAP<STRING, ARRAY<DOUBLE>>>>"
    assert columns_of(str(column)) == (column,)


def test_synonyms_of_a_type_become_one_name() -> None:
    text = "a INTEGER, b LONG, c SHORT, d BYTE, e REAL, f NUMERIC(4), g DEC, h TIMESTAMP_LTZ"
    assert [str(column.type) for column in columns_of(text)] == (
        ["INT", "BIGINT", "SMALLINT", "TINYINT", "FLOAT", "DECIMAL(4,0)", "DECIMAL(10,0)", "TIMESTAMP"]
    )


def test_columns_are_read_as_delta_keeps_them() -> None:
    string = {"name": "a", "type": "string", "nullable": True, "metadata": {}}
    fields: list[dict[str, Any]] = [
        {"name": "n", "type": "integer"},
        {"name": "price", "type": "decimal(10,2)"},
        {"name": "tags", "type": {"type": "map", "keyType": "string", "valueType": "long"}},
        {"name": "of", "type": {"type": "array", "elementType": {"type": "struct", "fields": [string]}}},
    ]
    text = "n INT, price DECIMAL(10, 2), tags MAP<STRING, BIGINT>, of ARRAY<STRUCT<a: STRING>>"
    assert columns_of_json(fields) == columns_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of a column, found the end"),
        ("id", "the end is no type"),
        ("id STRNG", "'STRNG' is no type"),
        ("id STRING,", "expected the name of a column, found the end"),
        ("id STRING name STRING", "expected the end, found 'name'"),
        ("id ARRAY", "expected '<', found the end"),
        ("id ARRAY<STRING", "expected '>', found the end"),
        ("id MAP<STRING>", "expected ',', found '>'"),
        ("id STRUCT<>", "expected the name of a column, found '>'"),
        ("id DECIMAL(ten)", "DECIMAL needs its size as whole numbers, as in DECIMAL(10, 2)"),
        ("id VARCHAR", "VARCHAR needs its size as whole numbers, as in VARCHAR(10)"),
        ("id STRING(3)", "expected the end, found '('"),
        ("id STRING NOT", "expected 'NULL', found the end"),
        ("id STRING COMMENT, n INT", "expected the text of a comment in single quotes, found ','"),
        ("id STRING COMMENT", "expected the text of a comment in single quotes, found the end"),
        ("id STRING, ID INT", "column 'id' stands there twice"),
        ("id STRING; DROP TABLE x", "'; DROP TABLE x' is not understood"),
    ],
)
def test_malformed_columns_are_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^") as error:
        columns_of(text)
    assert str(error.value) == message
