"""The records of files that come in: one row that does not fit is a dead letter, and the others go on."""

from __future__ import annotations

import io
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
from pyarrow.parquet import write_table

from kaspr_delta.engine.binding.file_records import FileRecords
from kaspr_delta.plan.definition.bindings import FilesPlan


def records(data: bytes, file_format: Literal["json", "csv", "parquet"], schema: str = "") -> list[Any]:
    plan = FilesPlan("/in", file_format, schema, "id", None, header=True, delimiter=",")
    return [tuple(one) for one in FileRecords(plan).records(f"file:/in/f.{file_format}", pa.py_buffer(data))]


def test_a_line_without_a_key_that_can_be_stored_is_a_dead_letter() -> None:
    first, *letters, last = records(b'{"id":1.0}\n{"id":"\\ud800"}\n{"id":1e999999999999}\n{"id":2}\n', "json")
    assert (first[0], last[0]) == ("1", "2")
    assert [letter[:2] for letter in letters] == [(None, '{"id":"\\ud800"}'), (None, '{"id":1e999999999999}')]
    assert [letter[3][:10] for letter in letters] == ["f.json:2: ", "f.json:3: "]


def test_a_dead_letter_of_parquet_is_json() -> None:
    file = io.BytesIO()
    at = datetime(2024, 5, 1)  # noqa: DTZ001  a time without a zone
    write_table(pa.table({"id": ["a"], "at": [at], "x": [float("nan")], "d": [Decimal("1.50")], "b": [b"\xff"]}), file)
    assert records(file.getvalue(), "parquet", "id STRING, at DATE") == [
        (
            None,
            '{"id":"a","at":"2024-05-01T00:00:00","x":"nan","d":1.5,"b":"/w=="}',
            None,
            "f.parquet, row 1: at is DATE, and 2024-05-01 00:00:00 is not",
        )
    ]


def test_a_file_whose_header_cannot_be_read_is_one_dead_letter() -> None:
    (letter,) = records("id,é\n1,2\n3,4\n".encode("latin-1"), "csv", "id STRING")
    assert letter[3] == "f.csv:1:4: this is not UTF-8 text: byte 0xe9; save the file as UTF-8"


def test_the_header_of_a_file_without_rows_is_checked() -> None:
    assert records(b"id,n\n", "csv", "id STRING, n INT") == []
    ((*_, detail),) = records(b"id,nonsense\n", "csv", "id STRING, n INT")
    assert detail == "f.csv: there is no column n (there are: id, nonsense)"
