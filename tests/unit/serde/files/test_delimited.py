from __future__ import annotations

import bz2
import gzip
import io
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.errors import UsageError
from kaspr_delta.serde.files.read import RowFormat, file_rows
from tests.unit.serde.files.csv_files import FILES, cells_of


def rows(data: bytes, file_format: RowFormat = "csv", **settings: Any) -> list[Any]:
    return [row.cells or row.problem for row in file_rows(io.BytesIO(data), "f", file_format, **settings)]


def places(data: bytes) -> list[str]:
    return [f"{row.place}: {row.problem}" for row in file_rows(io.BytesIO(data), "f", "csv") if row.problem]


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_cells_are_those_of_python_and_duckdb(data: bytes, tmp_path: Any) -> None:
    expected = cells_of(data)
    assert rows(data) == expected
    assert rows(gzip.compress(data)) == rows(bz2.compress(data)) == rows(data)
    file = tmp_path / "f.csv"
    file.write_bytes(data)
    read = f"SELECT * FROM read_csv('{file}', header = true, all_varchar = true, quote = '\"', escape = '\"')"  # noqa: S608
    if b"\r1" not in data and b'5" pipe' not in data:  # DuckDB guesses other dialects of these two
        assert duckdb.execute(read).fetchall() == [tuple(row.values()) for row in expected]


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0")))] * 3)))
def test_what_is_written_with_quotes_is_read_back(cells: list[tuple[str | None, ...]]) -> None:
    quoted = ('"' + cell.replace('"', '""') + '"' if cell is not None else "" for row in cells for cell in row)
    lines = [",".join(row) for row in zip(*[iter(quoted)] * 3, strict=True)]
    data = "\n".join(["a,b,c", *lines, ""]).encode()
    assert rows(data) == [dict(zip("abc", row, strict=True)) for row in cells]


def test_an_empty_field_is_null_and_an_empty_text_is_not() -> None:
    assert rows(b'a,b,c\n,"",x\n"x,"",y",,""\n') == [
        {"a": None, "b": "", "c": "x"},
        {"a": 'x,",y', "b": None, "c": ""},
    ]


def test_a_row_that_cannot_be_read_is_named_by_its_line_and_the_others_are_read() -> None:
    data = b'id,note\n1,"two\nlines"\n2,Smith, John\n3\n4,"ab"c\n5,caf\xe9\n6,ok\n7,"open\n8,x\n'
    assert places(data) == [
        "f:4: expected 2 fields, found 3",
        "f:5: expected 2 fields, found 1",
        "f:6: this is not CSV: ',' expected after '\"'; in a field in quotes a quote is written twice",
        "f:7:6: this is not UTF-8 text: byte 0xe9; save the file as UTF-8",
        "f:9: a quote is opened here and not closed: in a field in quotes a quote is written twice",
    ]
    assert [row for row in rows(data) if isinstance(row, dict)] == [
        {"id": "1", "note": "two\nlines"},
        {"id": "6", "note": "ok"},
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        *(
            (header + b"\n1,2,3\n", "f:1: the first line must name the columns")
            for header in (b"id,id", b"id,", b"a,,b")
        ),
        ("id,é\n1,2\n3\n".encode("latin-1"), "f:1:4: this is not UTF-8 text: byte 0xe9"),
        ("id,n\n1,2\n".encode("utf-16"), "f:1:1: this is not UTF-8 text: byte 0xff"),
        (b'id,"n\n1,2\n', "f:1: a quote is opened here and not closed"),
        (gzip.compress(b"id\n1\n" * 1_000)[:-9], "^f "),
        (b"PK\x03\x04rest", "^f "),
    ],
    ids=range(8),
)
def test_a_file_without_names_of_columns_or_that_breaks_off_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        rows(data)


def test_tsv_has_tabs_separators_and_names_can_be_given_and_fields_may_be_long() -> None:
    assert rows(b"id\tnote\n1\ta,b\n", "tsv") == [{"id": "1", "note": "a,b"}]
    assert rows(b"a\n" + b"x" * 1_000_000 + b"\n") == [{"a": "x" * 1_000_000}]
    assert rows(b"1;a\n", delimiter=";", columns=["id", "note"]) == [{"id": "1", "note": "a"}]


def test_json_lines_may_have_a_byte_order_mark_and_compression() -> None:
    data = b'\xef\xbb\xbf{"a":1}\r\n\n{"a":0.1234567890123456789012345}'
    assert rows(data, "json") == rows(gzip.compress(data), "json") == [{"a": 1}, {"a": 0.12345678901234568}]


def test_a_line_of_json_that_cannot_be_read_is_a_problem_with_its_reason() -> None:
    data = b'{"id":4,"id":5}\nno json\n{"a":"\xe9"}\n{"a":NaN}\n'
    assert [f"{row.place}: {row.problem}"[:52] for row in file_rows(io.BytesIO(data), "f", "json")] == [
        "f:1: the name 'id' stands twice in an object",
        "f:2: not JSON: 'no json' (Expecting value: line 1 co",
        "f:3:7: this is not UTF-8 text: byte 0xe9; save the f",
        "f:4: not JSON: '{\"a\":NaN}' (NaN is not JSON)",
    ]
