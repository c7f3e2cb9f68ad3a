from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Kaspr

ORDER_SYSTEM = Path(__file__).parents[3] / "bundles" / "order-system"


@pytest.fixture
def warehouse(kaspr: Kaspr, tmp_path: Path) -> Path:
    """A warehouse in which the tables of an application are declared, and in which nothing ran."""
    assert kaspr("apply", "-f", ORDER_SYSTEM, "--warehouse", tmp_path / "wh").code == 0
    return tmp_path / "wh"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["orders", "get"], "table orders get: expected a key after it"),
        (["orders", "load"], "table orders load: expected a file after it"),
        (["orders", "dump", "O1"], "table orders dump: expected nothing more after it"),
    ],
)
def test_an_action_with_missing_or_extra_arguments_is_a_wrong_call(
    kaspr: Kaspr, tmp_path: Path, arguments: list[str], message: str
) -> None:
    answer = kaspr("table", *arguments, "--warehouse", tmp_path / "wh")
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert not (tmp_path / "wh").exists()


def test_an_unknown_action_is_a_wrong_call(kaspr: Kaspr) -> None:
    answer = kaspr("table", "orders", "drop")
    assert answer.code == 2
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("row", ['{"key": 1}', '{"key": 1, "value": 2, "more": 3}', "{}"])
def test_a_row_to_load_has_key_and_value_and_nothing_else(
    kaspr: Kaspr, warehouse: Path, tmp_path: Path, row: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"key": 1, "value": 2}}\n{row}\n')
    answer = kaspr("table", "orders", "load", file, "--warehouse", warehouse)
    assert answer.code == 2
    assert f"{file}:2: expected an object with key and value" in answer.err
    assert "Starting Spark" not in answer.err


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
    assert "Starting Spark" not in answer.err


@pytest.mark.parametrize("file", ["rows.csv", "rows.jsonl"])
def test_a_file_to_load_that_is_not_utf8_is_an_error_with_its_place(
    kaspr: Kaspr, warehouse: Path, tmp_path: Path, file: str
) -> None:
    (tmp_path / file).write_bytes(b"key,value\na,caf\xe9\n" if file == "rows.csv" else b'\n{"key": "\xe9"}\n')
    answer = kaspr("table", "orders", "load", tmp_path / file, "--key", "key", "--warehouse", warehouse)
    assert answer.code == 2
    place = "2:6" if file == "rows.csv" else "2:10"
    assert f"{tmp_path / file}:{place}: this is not UTF-8 text: byte 0xe9; save the file as UTF-8" in answer.err


def test_a_name_to_load_that_is_no_table_is_refused_before_spark_starts(kaspr: Kaspr, warehouse: Path) -> None:
    unknown = kaspr("table", "product", "load", "rows.csv", "--warehouse", warehouse)
    join = kaspr("table", "orders-products-join", "load", "rows.csv", "--warehouse", warehouse)
    assert (unknown.code, unknown.err) == (2, "no table 'product' (did you mean 'products'?)\n")
    assert (join.code, join.err) == (2, "orders-products-join is a join: load the tables that it joins\n")


@pytest.mark.parametrize("option", [["--key", "id"], ["--format", "csv"], ["--text", "id"], ["--number", "id"]])
def test_options_of_load_are_refused_for_other_actions(kaspr: Kaspr, tmp_path: Path, option: list[str]) -> None:
    answer = kaspr("table", "orders", "dump", *option, "--warehouse", tmp_path / "wh")
    assert answer.code == 2
    assert "--key, --text, --number and --format are for load" in answer.err


@pytest.mark.parametrize("every", ["5", "fast", "5 s", "-1s", "1.5s", ""])
def test_an_interval_is_a_number_and_a_unit(kaspr: Kaspr, tmp_path: Path, every: str) -> None:
    answer = kaspr("run", "--continuous", "--every", every, "--warehouse", tmp_path / "wh")
    assert answer.code == 2
    assert "expected a number and a unit, such as 500ms, 5s or 1m" in answer.err
    assert not (tmp_path / "wh").exists()


def test_a_missing_path_is_an_error_before_spark_starts(kaspr: Kaspr, tmp_path: Path) -> None:
    answer = kaspr("run", tmp_path / "nowhere", "--warehouse", tmp_path / "wh")
    assert answer.code == 1
    assert "nowhere" in answer.err
    assert not (tmp_path / "wh").exists()


def test_an_error_in_a_manifest_is_shown_before_spark_starts(kaspr: Kaspr, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("apiVersion: kaspr.io/v1alpha1\nkind: KasprTabel\n")
    answer = kaspr("run", tmp_path, "--warehouse", tmp_path / "wh")
    assert answer.code == 1
    assert "m.yaml:2:7: error" in answer.err
    assert not (tmp_path / "wh").exists()
