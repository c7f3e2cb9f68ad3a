from __future__ import annotations

import pytest

from kaspr_delta.storage.spark.decoded import column_type


@pytest.mark.parametrize(
    ("inferred", "column"),
    [
        ("VOID", None),
        ("STRING", "STRING"),
        ("BIGINT", "BIGINT"),
        ("DECIMAL(3,2)", "DOUBLE"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 0)"),
        ("DECIMAL(21,0)", "DECIMAL(21,0)"),
        ("VARIANT", "VARIANT"),
        ("OBJECT<a: VOID>", "STRUCT<`a`: STRING>"),
        ("OBJECT<a: VARIANT, b: BOOLEAN>", "STRUCT<`a`: VARIANT, `b`: BOOLEAN>"),
        ("OBJECT<>", "VARIANT"),
        ("OBJECT<A: STRING, a: STRING>", "VARIANT"),
        ("OBJECT<o: OBJECT<A: STRING, a: STRING>, b: BIGINT>", "STRUCT<`o`: VARIANT, `b`: BIGINT>"),
        (
            "ARRAY<OBJECT<`x: VOID`: DECIMAL(1,1), `a``b, <`: ARRAY<ARRAY<VOID>>>>",
            "ARRAY<STRUCT<`x: VOID`: DOUBLE, `a``b, <`: ARRAY<ARRAY<STRING>>>>",
        ),
    ],
)
def test_an_inferred_type_becomes_one_that_a_column_can_have(inferred: str, column: str | None) -> None:
    assert column_type(inferred) == column
