from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from kaspr_delta.api.row_files import format_of, pairs_of_file
from kaspr_delta.errors import UsageError


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("rows.jsonl", None, "json"),
        ("rows.CSV", None, "csv"),
        ("rows.parquet", None, "parquet"),
        ("rows", None, "json"),
        ("rows.txt", "csv", "csv"),
        ("main.shop.products", "delta", "delta"),
    ],
)
def test_the_format_of_a_file_is_the_given_one_or_that_of_its_name(name: str, given: str | None, found: str) -> None:
    assert format_of(name, given) == found


def test_a_folder_with_a_delta_log_is_a_delta_table(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    assert format_of(str(tmp_path), None) == "delta"


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="expected json, csv, parquet, delta"):
        format_of("rows.xlsx", "xlsx")


def test_only_csv_columns_of_plain_numbers_or_booleans_are_converted(tmp_path: Path) -> None:
    file = tmp_path / "products.csv"
    file.write_text(
        "sku,zip,price,count,sold,mixed,note\n"
        '0017,01067,9.50,3,true,1,"a ""b"", c"\n'
        "0018,80331,10,-4,false,x,\n"
        '0019,,,,,,"two\nlines"\n'
    )
    assert pairs_of_file(str(file), "csv", ("sku",)) == [
        (
            "0017",
            {"sku": "0017", "zip": "01067", "price": 9.5, "count": 3, "sold": True, "mixed": "1", "note": 'a "b", c'},
        ),
        (
            "0018",
            {"sku": "0018", "zip": "80331", "price": 10.0, "count": -4, "sold": False, "mixed": "x", "note": None},
        ),
        (
            "0019",
            {"sku": "0019", "zip": None, "price": None, "count": None, "sold": None, "mixed": None}
            | {"note": "two\nlines"},
        ),
    ]


def test_a_csv_file_with_a_byte_order_mark_and_no_rows_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "empty.csv"
    file.write_bytes(b"\xef\xbb\xbfid,name\r\n")
    assert pairs_of_file(str(file), "csv", ("id",)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,name\n1,a\n2\n", ":3: expected 2 fields, found 1"),
        ("id,id\n1,2\n", "its first line must name the columns"),
        ("id,\n1,2\n", "its first line must name the columns"),
        ('id,name\n1,"open\n', "cannot be read"),
        ("id,name\n1,a\n", "row 1: there is no column 'sku' \\(there are: id, name\\)"),
    ],
)
def test_a_malformed_csv_file_is_refused_with_the_reason(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        pairs_of_file(str(file), "csv", ("sku",))


def test_several_key_columns_make_a_list(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    row = {"region": "eu", "id": 7, "price": Decimal("9.50"), "day": date(2026, 1, 2), "tags": ["a", None]}
    write_table(pa.Table.from_pylist([row]), file)
    assert pairs_of_file(str(file), "parquet", ("region", "id")) == [(["eu", 7], row)]


def test_without_a_key_column_a_row_has_a_key_and_a_value(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    write_table(pa.Table.from_pylist([{"key": "a", "value": {"n": 1}}]), file)
    assert pairs_of_file(str(file), "parquet") == [("a", {"n": 1})]
    write_table(pa.Table.from_pylist([{"id": "a", "n": 1}]), file)
    with pytest.raises(UsageError, match=r"row 1: expected an object with key and value.*--key"):
        pairs_of_file(str(file), "parquet")


def test_a_line_that_is_not_json_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": 1}\n\n{"id": \n')
    with pytest.raises(UsageError, match=r"rows\.jsonl:3: "):
        pairs_of_file(str(file), "json", ("id",))


@pytest.mark.parametrize("file_format", ["json", "csv", "parquet"])
def test_a_missing_file_is_an_error(tmp_path: Path, file_format: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        pairs_of_file(str(tmp_path / "nowhere"), file_format)  # type: ignore[arg-type]
