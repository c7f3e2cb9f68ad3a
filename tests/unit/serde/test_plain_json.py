from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from kaspr_delta.serde.json_text import value_text
from kaspr_delta.serde.plain_json import plain_json
from kaspr_delta.serde.typed_values import read
from kaspr_delta.spec.ddl import columns_of


@pytest.mark.parametrize(
    ("of", "value"),
    [
        ("DECIMAL(38, 18)", Decimal("1E-18")),
        ("DATE", date(2024, 5, 1)),
        ("TIMESTAMP", datetime(2024, 5, 1, 10, 0, 0, 7, tzinfo=timezone.utc)),
        ("TIMESTAMP_NTZ", datetime(2024, 5, 1, 10)),  # noqa: DTZ001  a column without a zone
        ("BINARY", b"\x00\xff"),
        ("DOUBLE", float("-inf")),
        ("DOUBLE", 1.5),
        ("BOOLEAN", True),
        ("MAP<STRING, ARRAY<DATE>>", {"a": [date(2024, 5, 1), None]}),
        ("STRUCT<a: BINARY, b: MAP<BIGINT, STRING>>", {"a": b"x", "b": {7: "seven"}}),
    ],
)
def test_column_values_are_read_back_from_plain_json_unchanged(of: str, value: Any) -> None:
    kind = columns_of(f"c {of}")[0].type
    text = value_text(plain_json(value))
    assert read(kind, json.loads(text, parse_float=Decimal)) == value
