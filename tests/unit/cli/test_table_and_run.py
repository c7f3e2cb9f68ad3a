from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import pytest

from tests.manifests import manifests
from tests.unit.cli.conftest import Kaspr

ORDER_SYSTEM = Path(__file__).parents[3] / "bundles" / "order-system"


@pytest.fixture
def warehouse(kaspr: Kaspr, tmp_path: Path) -> Path:
    """A warehouse in which the tables of an application are declared, and in which nothing ran."""
    assert kaspr("apply", "-f", ORDER_SYSTEM, "--warehouse", tmp_path / "wh").code == 0
    return tmp_path / "wh"


LOAD_ONLY = "--key, --text, --number and --format are for load"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("table orders get", "table orders get: expected a key after it"),
        ("table orders load", "table orders load: expected a file after it"),
        ("table orders dump O1", "table orders dump: expected nothing more after it"),
        ("table orders drop", "'drop' is not one of"),
        *((f"table orders dump {option}", LOAD_ONLY) for option in ("--key id", "--format csv", "--text id")),
        ("table orders get O1 --number id", LOAD_ONLY),
        *(
            (f"run --continuous --every {every}", "expected a number and a unit, such as 500ms, 5s or 1m")
            for every in ("5", "fast", "'5 s'", "-1s", "1.5s", "''")
        ),
    ],
)
def test_a_wrong_call_makes_no_warehouse(kaspr: Kaspr, tmp_path: Path, arguments: str, message: str) -> None:
    answer = kaspr(*shlex.split(arguments), "--warehouse", tmp_path / "wh")
    assert (answer.code, answer.out) == (2, "")
    assert message in " ".join(answer.err.split())
    assert not (tmp_path / "wh").exists()


@pytest.mark.parametrize("row", ['{"key": 1}', '{"key": 1, "value": 2, "more": 3}', "{}"])
def test_a_row_to_load_has_key_and_value_and_nothing_else(
    kaspr: Kaspr, warehouse: Path, tmp_path: Path, row: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"key": 1, "value": 2}}\n{row}\n')
    answer = kaspr("table", "orders", "load", file, "--warehouse", warehouse)
    assert answer.code == 2
    assert f"{file}:2: expected an object with key and value" in answer.err
    assert "Spark starts" not in answer.err


@pytest.mark.parametrize(
    ("file", "text", "arguments", "message"),
    [
        ("rows.csv", "id,name\n1\n", ["--key", "id"], "rows.csv:2: expected 2 fields, found 1"),
        ("rows.csv", "id,name\n1,a\n", ["--key", "sku"], "there is no column 'sku'"),
        ("rows.csv", "id,name\n1,a\n", [], "say which column is the key (--key)"),
        ("rows.txt", "PAR1", ["--format", "parquet"], "cannot be read"),
        ("rows.txt", "1", ["--format", "xlsx"], "'xlsx' is not one of"),
    ],
)
def test_a_malformed_file_to_load_is_an_error_before_spark_starts(  # noqa: PLR0917  fixtures, and the case
    kaspr: Kaspr, warehouse: Path, tmp_path: Path, file: str, text: str, arguments: list[str], message: str
) -> None:
    (tmp_path / file).write_text(text)
    answer = kaspr("table", "orders", "load", tmp_path / file, *arguments, "--warehouse", warehouse)
    assert answer.code == 2
    assert message in " ".join(answer.err.split())
    assert "Spark starts" not in answer.err


@pytest.mark.parametrize("file", ["rows.csv", "rows.jsonl"])
def test_a_file_to_load_that_is_not_utf8_is_an_error_with_its_place(
    kaspr: Kaspr, warehouse: Path, tmp_path: Path, file: str
) -> None:
    (tmp_path / file).write_bytes(b"key,value\na,caf\xe9\n" if file == "rows.csv" else b'\n{"key": "\xe9"}\n')
    answer = kaspr("table", "orders", "load", tmp_path / file, "--key", "key", "--warehouse", warehouse)
    assert answer.code == 2
    place = "2:6" if file == "rows.csv" else "2:10"
    assert f"{tmp_path / file}:{place}: this is not UTF-8 text: byte 0xe9; save the file as UTF-8" in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "orders-products-join", "joined.txt"), "expected a file name that ends in .csv or .parquet"),
        (("table", "orders", "load", "./gone", "--format", "delta"), "./gone is no Delta table"),
        (("table", "orders", "put", "O1"), "table orders put: expected a key and a value after it"),
        (("table", "orders-products-join", "put", "O1", "1"), "orders-products-join is a join: write the tables"),
    ],
)
def test_what_cannot_be_written_or_read_is_refused_before_spark_starts(
    kaspr: Kaspr, warehouse: Path, arguments: tuple[str, ...], message: str
) -> None:
    answer = kaspr(*arguments, "--warehouse", warehouse)
    assert (answer.code, message in " ".join(answer.err.split())) == (2, True), answer.err
    assert "Spark starts" not in answer.err


def test_a_name_to_load_that_is_no_table_is_refused_before_spark_starts(kaspr: Kaspr, warehouse: Path) -> None:
    unknown = kaspr("table", "product", "load", "rows.csv", "--warehouse", warehouse)
    join = kaspr("table", "orders-products-join", "load", "rows.csv", "--warehouse", warehouse)
    assert (unknown.code, unknown.err) == (2, "no table 'product' (did you mean 'products'?)\n")
    assert (join.code, join.err) == (2, "orders-products-join is a join: write the tables that it joins\n")


@pytest.mark.parametrize(("path", "message"), [("nowhere", "nowhere"), ("m.yaml", "m.yaml:2:7: error")])
def test_manifests_with_an_error_or_that_are_missing_are_refused_before_spark_starts(
    kaspr: Kaspr, tmp_path: Path, path: str, message: str
) -> None:
    (tmp_path / "m.yaml").write_text("apiVersion: kaspr.io/v1alpha1\nkind: KasprTabel\n")
    answer = kaspr("run", tmp_path / path, "--warehouse", tmp_path / "wh")
    assert answer.code == 1
    assert message in answer.err
    assert not (tmp_path / "wh").exists()


def test_rows_with_keys_of_bytes_are_printed_as_they_are_loaded_and_found(tmp_path: Path, kaspr: Kaspr) -> None:
    text = 'KasprTable/{}: {{key: id, schema: "id BINARY, n INT, at DATE"}}\n'
    (tmp_path / "shop.yaml").write_text(manifests("shop", "".join(text.format(name) for name in ("one", "other"))))
    table = partial(kaspr, "--warehouse", tmp_path / "wh", "table")
    kaspr("--warehouse", tmp_path / "wh", "apply", "-f", tmp_path / "shop.yaml")
    assert table("one", "put", "/wA=", '{"n": 1, "at": "2024-05-01"}').code == 0
    line = '{"key":"/wA=","value":{"id":"/wA=","n":1,"at":"2024-05-01"}}\n'
    assert [table("one", "dump").out, table("one", "get", "/wA=").out] == [line, line]
    (tmp_path / "rows.jsonl").write_text(line)
    assert table("other", "load", tmp_path / "rows.jsonl").code == 0
    assert table("other", "dump").out == line
    assert "is BINARY, and 'no base64' is not base64" in table("one", "get", "no base64").err
