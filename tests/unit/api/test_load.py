"""Files as tables get them: the same file in every format, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from kaspr_delta.api.export import export_format, write_pairs
from kaspr_delta.api.load import Content, LoadOptions, columns_check, load_format, read_content, rows_in
from kaspr_delta.errors import UsageError
from kaspr_delta.plan.definition.resources import SerializerName, Serializers, TablePlan
from kaspr_delta.plan.definition.typed_tables import TypedPlan
from kaspr_delta.serde.json_text import value_text
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.spec.diagnostics import Location


def plan_of(
    schema: str | None = None, key: tuple[str, ...] = ("id",), serializer: SerializerName = "json"
) -> TablePlan:
    typed = None if schema is None else TypedPlan(key, columns_of(schema))
    serializers = Serializers(serializer, serializer)
    return TablePlan("t", "t", "c", serializers, 1, description="", location=Location("a.yaml", 1, 1), typed=typed)


def content(file: Path, plan: TablePlan, **options: Any) -> Content:
    file_format, given = load_format(str(file), None), LoadOptions.of(**options)
    rows = rows_in(str(file), file_format, columns_check(plan, str(file), given))
    return read_content(plan, str(file), rows, given, json=file_format == "json")


def pairs(file: Path, **options: Any) -> dict[Any, Any]:
    texts = content(file, plan_of(), **options).texts
    return {key: None if text is None else json.loads(text) for key, text in texts.items()}


def columns(file: Path, schema: str, **options: Any) -> list[dict[str, Any]]:
    found = content(file, plan_of(schema), **options).columns
    assert found is not None
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@pytest.mark.parametrize("name", ["f.csv", "f.tsv", "f.csv.gz", "f.parquet", "folder.parquet"])
def test_the_columns_of_a_file_without_rows_are_checked(tmp_path: Path, name: str) -> None:
    file, names = tmp_path / name, ("id", "nonsense")
    if name == "folder.parquet":
        file.mkdir()
    if name.endswith("parquet"):
        table = pa.table({one: pa.array([], pa.string()) for one in names})
        write_table(table, file / "part.parquet" if file.is_dir() else file)
    else:
        written(file, ("\t" if name == "f.tsv" else ",").join(names) + "\n")
    assert columns(file, "id STRING, nonsense STRING") == []
    assert pairs(file, key="id") == {}
    with pytest.raises(UsageError, match="has columns of its own: nonsense"):
        columns(file, "id STRING, n INT")
    with pytest.raises(UsageError, match="there is no column 'n'"):
        pairs(file, key="n")


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def parquet(path: Path, table: Any) -> Path:
    write_table(table, path)
    return path


def refusal(file: Path, plan: TablePlan, **options: Any) -> list[str]:
    with pytest.raises(UsageError) as error:
        content(file, plan, **options)
    return str(error.value).replace(f"{file.parent}/", "").split("\n")


# -- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("rows.jsonl", None, "json"),
        ("rows.CSV", None, "csv"),
        ("rows.csv.gz", None, "csv"),
        ("rows.tsv", None, "tsv"),
        ("rows.parquet", None, "parquet"),
        ("rows", None, "json"),
        ("-", None, "json"),
        ("rows.txt", "csv", "csv"),
        ("main.shop.products", "delta", "delta"),
        ("table", None, "delta"),
    ],
)
def test_the_format_is_the_given_one_or_that_of_the_name_or_of_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, given: str | None, found: str
) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert load_format(name, given) == found


def test_unknown_formats_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected json, csv, tsv, parquet, delta"):
        load_format("rows.csv", "xlsx")
    with pytest.raises(UsageError, match="does not end like one of CSV"):
        load_format("rows.xlsx", None)
    with pytest.raises(UsageError, match=r"ends in \.csv or \.parquet"):
        export_format("f.xlsx", None)
    for name in ("f.json", "f.csv", "f.parquet"):
        with pytest.raises(UsageError, match="cannot be read"):
            content(tmp_path / name, plan_of())


SCHEMA = "id STRING, price DECIMAL(20, 2), n BIGINT, x DOUBLE, ok BOOLEAN, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ"
AT = datetime(2024, 5, 1, 8, 0, 0, 123456, timezone.utc)
LOCAL = datetime(2024, 5, 1, 10, 0)  # noqa: DTZ001  a time without a zone
NAMES = ("id", "price", "n", "x", "ok", "day", "at", "local")
ROWS = [
    dict(zip(NAMES, cells, strict=True))
    for cells in (
        ("007", Decimal("12345678901234567.89"), 9007199254740993, 0.1, True, date(2024, 5, 1), AT, LOCAL),
        ('a "b",\nc', Decimal("0.50"), -1, 1e300, False, None, None, None),
        ("", None, None, None, None, None, None, None),
    )
]
TEXT = (
    "id{0}price{0}n{0}x{0}ok{0}day{0}at{0}local\n"
    "007{0}12345678901234567.89{0}9007199254740993{0}0.1{0}true{0}2024-05-01{0}2024-05-01T10:00:00.123456+02:00"
    "{0}2024-05-01 10:00:00.000000000\n"
    '"a ""b"",\nc"{0}0.5{0}-1{0}1e300{0}F{0}{0}{0}\n'
    '""{0}{0}{0}{0}{0}{0}{0}\n'
)
LINES = (
    '{"key":"007","value":{"price":12345678901234567.89,"n":9007199254740993,"x":0.1,"ok":true,"day":"2024-05-01",'
    '"at":"2024-05-01T10:00:00.123456+02:00","local":"2024-05-01T10:00:00"}}\n'
)


def test_each_format_gives_the_same_rows_with_columns(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    for name, text in (("f.csv", TEXT.format(",")), ("f.tsv", TEXT.format("\t")), ("f.csv.gz", TEXT.format(","))):
        assert columns(written(tmp_path / name, text), SCHEMA) == ROWS, name
    assert columns(parquet(tmp_path / "f.parquet", table), SCHEMA) == ROWS
    found = content(written(tmp_path / "f.jsonl", LINES), plan_of(SCHEMA)).texts['"007"']
    assert '"price":"12345678901234567.89"' in str(found)


def test_what_dump_prints_of_a_table_with_columns_load_reads_back_equal(tmp_path: Path) -> None:
    line = (
        '{"key":["/w==","2024-05-01",5.5],"value":{"b":"/w==","d":"2024-05-01","n":"5.50","x":"NaN","f":"-Infinity",'
        '"t":"0001-01-01T00:00:00.000000Z","s":{"b":"YWJj"},"m":{"k":null}}}\n'
    )
    plan = plan_of(
        "b BINARY, d DATE, n DECIMAL(5, 2), x DOUBLE, f FLOAT, t TIMESTAMP, s STRUCT<b: BINARY>, m MAP<STRING, INT>",
        ("b", "d", "n"),
    )
    ((key, value),) = content(written(tmp_path / "f.jsonl", line), plan).texts.items()
    assert f'{{"key":{key},"value":{value}}}\n' == line
    assert refusal(written(tmp_path / "g.jsonl", line.replace("YWJj", "é")), plan) == [
        "g.jsonl:1: s.b is BINARY, and 'é' is not base64"
    ]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_every_cell_that_does_not_fit_its_type_is_named_by_its_place(tmp_path: Path) -> None:
    schema = "id STRING, price DECIMAL(20, 2), d38 DECIMAL(38, 10), day DATE, small TINYINT, x FLOAT, at TIMESTAMP"
    file = written(
        tmp_path / "f.csv",
        "id,price,d38,day,small,x,at\n"
        "1,9.999,,,,,\n2,,0.123456789012345,,,,\n3,,,2024-05-01 23:59:59,,,\n4,,,,128,,\n5,,,,1.5,,\n6,,,,,1e39,\n"
        "7,,,,,,2024-05-01 10:00:00.1234567\n8,,,2024-02-30,,,\n9,x,,,,,\n10,1e3,,,5.0,nan,2024-05-01\n",
    )
    assert refusal(file, plan_of(schema)) == [
        "f.csv:2: price is DECIMAL(20,2), and '9.999' is not",
        "f.csv:3: d38 is DECIMAL(38,10), and '0.123456789012345' is not",
        "f.csv:4: day is DATE, and '2024-05-01 23:59:59' is not",
        "f.csv:5: small is TINYINT, and '128' is not",
        "f.csv:6: small is TINYINT, and '1.5' is not",
        "f.csv:7: x is FLOAT, and '1e39' is not",
        "f.csv:8: at is TIMESTAMP, and '2024-05-01 10:00:00.1234567' has more than microseconds",
        "f.csv:9: day is DATE, and '2024-02-30' is not",
        "f.csv:10: price is DECIMAL(20,2), and 'x' is not",
    ]


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("STRUCT<d: DECIMAL(20, 2)>", '{"d":12345678901234567.890}', {"d": Decimal("12345678901234567.89")}),
        ("STRUCT<d: DECIMAL(20, 2)>", '{"d":1.005}', "c.d is DECIMAL(20,2), and 1.005 is not"),
        ("STRUCT<d: DECIMAL(20, 2)>", '{"d":"1.005"}', "c.d is DECIMAL(20,2), and 1.005 is not"),
        ("STRUCT<a: INT>", '{"a":1,"b":2}', "c has no column b: its columns are a"),
        (
            "STRUCT<a: INT>",
            '{"a":1,"a":2}',
            "c is STRUCT<`a`: INT>, and '{\"a\":1,\"a\":2}' is not: the name 'a' stands",
        ),
        (
            "STRUCT<t: TIMESTAMP>",
            '{"t":"2024-05-01T10:00:00.1234567Z"}',
            "c.t is TIMESTAMP, and '2024-05-01T10:00:00.1",
        ),
        ("STRUCT<x: DOUBLE, y: DOUBLE>", '{"x":"-Infinity","y":null}', {"x": float("-inf"), "y": None}),
        ("STRUCT<x: DOUBLE>", '{"x":1e400}', "c.x is DOUBLE, and 1E+400 is not"),
        ("MAP<DECIMAL(5, 2), BINARY>", '{"1.5":"YWJj"}', [(Decimal("1.50"), b"abc")]),
        ("MAP<DECIMAL(5, 2), BINARY>", '{"1.505":""}', "a key of c is DECIMAL(5,2), and '1.505' is not"),
        ("MAP<INT, INT>", '{"1":1,"1.0":2}', "c is MAP<INT, INT>, and one of its keys stands twice"),
        ("MAP<BOOLEAN, INT>", '{"null":1}', "a key of c is BOOLEAN, and 'null' is not"),
        ("ARRAY<BINARY>", '["caf\u00e9"]', "c[0] is BINARY, and 'caf\u00e9' is not base64"),
        ("ARRAY<STRING>", '["\\ud800"]', r"c[0] is STRING, and '\ud800' is not"),
    ],
)
def test_a_nested_value_is_checked_like_a_cell(tmp_path: Path, kind: str, text: str, found: Any) -> None:
    quoted = text.replace('"', '""')
    file = written(tmp_path / "f.csv", f'id,c\n1,"{quoted}"\n')
    schema = f"id STRING, c {kind}"
    if isinstance(found, str):
        assert refusal(file, plan_of(schema))[0].startswith(f"f.csv:2: {found}")
    else:
        assert columns(file, schema)[0]["c"] == found


TYPED = plan_of("id STRING, note STRING")


@pytest.mark.parametrize(
    ("plan", "text", "problems"),
    [
        (TYPED, "id,note\n7,Smith, John\n8\n", [":2: expected 2 fields, found 3", ":3: expected 2 fields, found 1"]),
        (TYPED, "id,note\n,x\n", [":2: it has no key (id)"]),
        (TYPED, "id,note\n1,x\n1,y\n", [":3: it has the key of another row: 1"]),
        (TYPED, "note\nx\n", [" has no column id, of the key (the columns of t are id, note)"]),
        (TYPED, "id,extra\n1,x\n", [" has columns of its own: extra (the columns of t are id, note)"]),
        (TYPED, "id,timestamp\n1,x\n", [" has columns of its own: timestamp (the columns of t are id, note)"]),
        (plan_of(), "sku,name\n,a\n", [":2: the key column sku is empty"]),
        (plan_of(), "id,name\n1,a\n", [": there is no column 'sku' (there are: id, name)"]),
        (plan_of(), "sku,name\n1,a,b\n", [":2: expected 2 fields, found 3"]),
    ],
)
def test_a_file_that_does_not_fit_a_table_is_refused(
    tmp_path: Path, plan: TablePlan, text: str, problems: list[str]
) -> None:
    options = {} if plan is TYPED else {"key": "sku"}
    found = refusal(written(tmp_path / "f.csv", text), plan, **options)
    assert found == [f"f.csv{problem}" for problem in problems]


@pytest.mark.parametrize("names", ["value.a,value.a.b", "value.a.b,value.a", "value.a,value.a:json"])
def test_two_columns_that_are_one_field_are_refused(tmp_path: Path, names: str) -> None:
    (problem,) = refusal(written(tmp_path / "f.csv", f"key,{names}\n1,2,3\n"), plan_of())
    assert problem.startswith("f.csv:2: column value.a")


def test_a_line_of_json_is_refused_with_its_place(tmp_path: Path) -> None:
    lines = '{"key":"a","value":{"price":9.999}}\n{"key":"b","value":{"other":1}}\n[1]\n{"id":1}\n'
    assert refusal(written(tmp_path / "f.jsonl", lines), plan_of("id STRING, price DECIMAL(20, 2)")) == [
        "f.jsonl:1: price is DECIMAL(20,2), and 9.999 is not",
        "f.jsonl:2: the row has no column other: its columns are id, price",
        "f.jsonl:3: expected an object with key and value, not [1]",
        "f.jsonl:4: expected an object with key and value, not one with id: say which column is the key (--key)",
    ]


# -- tables without columns -------------------------------------------------------------------------------------------


def test_a_cell_is_the_same_in_every_file_and_a_long_fraction_keeps_its_digits(tmp_path: Path) -> None:
    assert pairs(written(tmp_path / "a.csv", "sku,n\n100,1\n200,1.0\n"), key="sku").keys() == {"100", "200"}
    found = pairs(written(tmp_path / "b.csv", "sku,n\n100,1\n007,true\nA7,x\n100.0,2\n"), key="sku")
    assert found == {
        "100": {"sku": 100, "n": 2},
        '"007"': {"sku": "007", "n": True},
        '"A7"': {"sku": "A7", "n": "x"},
    }
    table = pa.table({"sku": [100.0, None], "id": [1, 2]})
    assert pairs(parquet(tmp_path / "c.parquet", table), key="id")["1"] == {"sku": 100, "id": 1}
    lines = written(tmp_path / "f.jsonl", '{"id":100.0,"ref":7.0,"x":{"y":7.0}}\n{"id":9.5,"ref":1.5}\n')
    assert content(lines, plan_of(), key="id").texts == {
        "100": '{"id":100,"ref":7,"x":{"y":7.0}}',
        "9.5": '{"id":9.5,"ref":1.5}',
    }
    fraction = written(tmp_path / "d.csv", "id,x\n1,12345678901234567.89\n")
    assert content(fraction, plan_of(), key="id").texts == {"1": '{"id":1,"x":12345678901234567.89}'}


def test_options_say_what_is_text_and_what_is_a_number(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "sku,zip\n100,01067\n")
    assert pairs(file, key="sku", text="sku", number="zip") == {'"100"': {"sku": "100", "zip": 1067}}
    lines = written(tmp_path / "a.jsonl", '{"sku":100}\n{"sku":"A7"}\n')
    assert pairs(lines, key="sku", text=("sku",)).keys() == {'"100"', '"A7"'}
    assert refusal(lines, plan_of(), key="sku", number="sku") == ["a.jsonl:2: column sku: 'A7' is no number"]
    assert refusal(file, plan_of(), key="sku", text="sk") == [
        "a.csv has no column sk, which is to hold texts or numbers"
    ]
    odd = written(tmp_path / "b.csv", "sku\n1_0\n\uff11\n")
    assert refusal(odd, plan_of(), key="sku", number="sku") == [
        "b.csv:2: column sku: '1_0' is no number",
        "b.csv:3: column sku: '\uff11' is no number",
    ]
    with pytest.raises(UsageError, match="table 't' has a schema"):
        content(file, plan_of("sku STRING, zip STRING", ("sku",)), text="sku")


def test_kinds_of_keys_are_inferred_unless_options_name_all_columns_of_the_key(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "sku,name\n100,Lamp\n")
    given: list[dict[str, Any]] = [{}, {"text": "name"}, {"text": "sku"}, {"number": "sku", "text": "name"}]
    assert [content(file, plan_of(), key="sku", **one).infers for one in given] == [True, True, False, False]


def test_what_was_inferred_is_told(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "sku,name,n\n100,Lamp,1\nA7,42,2\n")
    assert list(content(file, plan_of(), key=("sku",)).notes()) == [
        "key sku: 1 number, 1 text",
        "column name: 1 text, 1 number (--text name makes all of them texts)",
    ]


# -- Parquet of other programs ----------------------------------------------------------------------------------------


def test_parquet_of_pandas_is_read(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "at": pd.Series(["2024-05-01 10:00", None]).astype("datetime64[ns]"),
            "kind": pd.Categorical(["a", "b"]),
            "small": pd.array([1, None], "UInt8"),
            "tags": [["x"], None],
            "pair": [{"a": 1.5}, {"a": None}],
        }
    ).set_index(pd.Index([3, 4]))
    frame.to_parquet(tmp_path / "f.parquet")
    schema = "id BIGINT, at TIMESTAMP_NTZ, kind STRING, small INT, tags ARRAY<STRING>, pair STRUCT<a: DOUBLE>"
    at = datetime(2024, 5, 1, 10, 0)  # noqa: DTZ001  a time without a zone
    assert columns(tmp_path / "f.parquet", schema) == [
        {"id": 1, "at": at, "kind": "a", "small": 1, "tags": ["x"], "pair": {"a": 1.5}},
        {"id": 2, "at": None, "kind": "b", "small": None, "tags": None, "pair": {"a": None}},
    ]
    assert pairs(tmp_path / "f.parquet", key="id")["1"] == (
        {"id": 1, "at": "2024-05-01T10:00:00", "kind": "a", "small": 1, "tags": ["x"], "pair": {"a": 1.5}}
    )


NOT_IN_YEARS = "has a date or a time that is not in the years 1 to 9999"


@pytest.mark.parametrize(
    ("name", "column", "problem"),
    [
        ("c", pa.array([1], pa.timestamp("ns")), "column c has nanoseconds, and tables have microseconds"),
        ("c", pa.array([1], pa.duration("s")), "column c is duration[s], which no table here holds: write it as text"),
        ("c", pa.array([10**15], pa.timestamp("s")), f"column c {NOT_IN_YEARS}"),
        ("c", pa.array([10**8], pa.date32()), f"column c {NOT_IN_YEARS}"),
        (
            "c",
            pa.array([[([1], 1)]], pa.map_(pa.list_(pa.int8()), pa.int8())),
            "which no table here holds: write it as",
        ),
        (
            "c",
            pa.array([[(1, "a"), (1, "b")]], pa.map_(pa.int8(), pa.string())),
            "column c: a key stands twice in a map",
        ),
        (
            "c",
            pa.array(pd.period_range("2024-01", periods=1, freq="M")),
            "column c is pandas.period, which no table here",
        ),
        ("c", pa.array([float("nan")]), "column c: nan is a number that JSON does not have: make it null"),
        ("id", pa.array([2]), "f.parquet: two columns are called id: give each a name of its own"),
    ],
)
def test_parquet_that_no_table_holds_is_refused_in_a_sentence(
    tmp_path: Path, name: str, column: pa.Array, problem: str
) -> None:
    table = pa.Table.from_arrays([pa.array([1]), column], ["id", name])
    (found,) = refusal(parquet(tmp_path / "f.parquet", table), plan_of(), key="id")
    assert problem in found


def test_times_of_spark_have_all_years(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "at": pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))})  # noqa: DTZ001
    write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    assert pairs(tmp_path / "f.parquet", key="id") == {"1": {"id": 1, "at": "9999-12-31T00:00:00"}}


def test_uuids_and_keys_of_maps_are_text_as_cells_are(tmp_path: Path) -> None:
    uuid = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))
    table = pa.table(
        {
            "id": uuid,
            "l": pa.ListArray.from_arrays([0, 1], uuid),
            "m": pa.array([[(date(2024, 5, 1), 1)]], pa.map_(pa.date32(), pa.int8())),
            "at": pa.array([0], pa.timestamp("us", "No/Place")),
            "ok": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())),
        }
    )
    zeros = "00000000-0000-0000-0000-000000000000"
    assert pairs(parquet(tmp_path / "f.parquet", table), key="id") == {
        f'"{zeros}"': {"id": zeros, "l": [zeros], "m": {"2024-05-01": 1}, "at": "1970-01-01T00:00:00Z", "ok": True}
    }


def test_maps_bytes_decimals_and_views_of_parquet_are_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array(["a"], pa.large_string()),
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            "b": [b"abc"],
            "d": pa.array([Decimal("9.50")], pa.decimal128(10, 2)),
            "t": pa.array([date(2024, 5, 1)]),
        }
    )
    file = parquet(tmp_path / "f.parquet", table)
    assert pairs(file, key="id") == {'"a"': {"id": "a", "m": {"k": 1}, "b": "YWJj", "d": 9.5, "t": "2024-05-01"}}
    schema = "id STRING, m MAP<STRING, INT>, b BINARY, d DECIMAL(5, 1), t DATE"
    assert columns(file, schema) == [
        {"id": "a", "m": [("k", 1)], "b": b"abc", "d": Decimal("9.5"), "t": date(2024, 5, 1)}
    ]


# -- what export writes, load reads -----------------------------------------------------------------------------------

# Python 3.10 refuses a NUL in CSV.
NUL = "\0" if sys.version_info >= (3, 11) else "\1"
VALUES: dict[str, list[tuple[Any, Any]]] = {
    "flat": [
        ("O1", {"name": "Lamp", "n": 1, "x": 1.5, "ok": True}),
        ("O2", {"name": 'a,"b"\nc', "n": 2, "x": 0.25, "ok": None}),
    ],
    "texts that look otherwise": [
        ("1", {"zip": "01067", "n": "5", "t": "true", "e": ""}),
        (1, {"zip": "x", "n": "a", "t": "f", "e": None}),
    ],
    "whole fractions": [("a", {"price": 10.0}), ("b", {"price": 9.5})],
    "missing and null": [("a", {"x": 1}), ("b", {"x": None}), ("c", {"y": 2})],
    "nested": [("a", {"s": {"t": {"u": 1}}, "l": [1, {"k": None}]}), ("b", {"s": {"t": {"u": 2}}, "l": []})],
    "several types": [("a", {"v": 1}), ("b", {"v": "x"}), ("c", {"v": [1.0]})],
    "no objects": [("a", 1), (2, "x"), ([1, "b"], [1])],
    "names": [("a", {"a.b": 1, "c d": 2}), ("b", {"a.b": 2, "c d": 3})],
    "large": [("a", {"n": 10**30, "x": 12345678901234567.0})],
    "keys of objects": [({"a": 1}, 1), ({"a": "b", "c": None}, 2)],
    "odd letters": [("\ufeffa", {"x": NUL}), ("\u2028", {"x": "\r"}), (" ", {"x": "\ufeff"})],
    "no fields": [("a", {}), ("b", {})],
    "none": [],
    "bytes": [(b"k\xff", b"v\x00")],
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("rows", VALUES.values(), ids=VALUES)
def test_what_export_writes_load_reads_back_equal(tmp_path: Path, rows: list[tuple[Any, Any]], ending: str) -> None:
    file = tmp_path / f"f.{ending}"
    times = pa.array([0] * len(rows), pa.timestamp("us", "UTC"))
    assert write_pairs(rows, {"timestamp": times}, str(file), None) == len(rows)
    if rows == VALUES["bytes"]:
        assert content(file, plan_of(serializer="raw")).texts == {"a/8=": "dgA="}
    else:
        assert content(file, plan_of()).texts == {value_text(key): value_text(one) for key, one in rows}


def test_only_bytes_of_an_export_are_base64(tmp_path: Path) -> None:
    assert pairs(written(tmp_path / "f.csv", "id,a:base64\n1,YWJj\n"), key="id") == {"1": {"id": 1, "a:base64": "YWJj"}}
    file = written(tmp_path / "f.csv", "key:base64,value:base64\nYQ==,Y*Q==\n")
    (problem,) = refusal(file, plan_of(serializer="raw"))
    assert problem.startswith("f.csv:2: column value:base64: ")  # the rest is Python's sentence


def test_plain_values_are_plain_cells(tmp_path: Path) -> None:
    write_pairs(VALUES["flat"], {}, str(tmp_path / "f.csv"), None)
    assert (tmp_path / "f.csv").read_text() == (
        '"key","value.name","value.n","value.x","value.ok"\n"O1","Lamp",1,1.5,true\n"O2","a,""b""\nc",2,0.25,\n'
    )


def test_standard_input_is_read_in_any_text_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id,n\n1,2\n")))
    rows = rows_in("-", load_format("-", "csv"))
    assert read_content(plan_of(), "-", rows, LoadOptions.of("id"), json=False).texts == {"1": '{"id":1,"n":2}'}


def test_each_file_of_a_folder_has_its_own_columns_types_and_partitions(tmp_path: Path) -> None:
    folder = tmp_path / "all.parquet"
    for place, table in {
        "zip=01234/day=2024-05-01/a.parquet": {"id": [71], "price": pa.array([1], pa.float32())},
        "zip=A%2F9/day=__HIVE_DEFAULT_PARTITION__/b.parquet": {"id": ["0072"], "price": [123456789.5], "more": [5]},
        "_hidden/x.parquet": {"id": ["hidden"]},
    }.items():
        (folder / place).parent.mkdir(parents=True)
        parquet(folder / place, pa.table(table))
    (first, second) = pairs(folder, key="id").items()
    assert first == ("71", {"zip": "01234", "day": "2024-05-01", "id": 71, "price": 1, "more": None})
    assert second == ('"0072"', {"zip": "A/9", "day": None, "id": "0072", "price": 123456789.5, "more": 5})
    schema = "zip STRING, day DATE, id STRING, price DOUBLE, more INT"
    with pytest.raises(UsageError, match="row 1: id is STRING, and 71 is not"):
        columns(folder, schema)
    parquet(folder / "zip=01234/day=2024-05-01/a.parquet", pa.table({"id": ["71"], "price": [0.1]}))
    assert [row["day"] for row in columns(folder, schema)] == [date(2024, 5, 1), None]
    with pytest.raises(UsageError, match="zip is INT, and 'A/9' is not"):
        columns(folder, schema.replace("zip STRING", "zip INT"))
    (tmp_path / "none.parquet").mkdir()
    with pytest.raises(UsageError, match="holds no Parquet files"):
        columns(tmp_path / "none.parquet", schema)


def test_a_whole_number_has_all_its_digits_or_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "t.csv", "id,n\n20240501000000123.0,x\n-0.0,y\n-0,z\n0.0,z\n")
    assert [str(key) for key in pairs(file, key="id")] == ["20240501000000123", "-0.0", "0"]
    ids = parquet(tmp_path / "ids.parquet", pa.table({"id": ["a", "b"], "ref": [1234567890123456768.0, None]}))
    with pytest.raises(UsageError, match=r"row 1: ref is BIGINT, and 1.2345678901234568e.18 is a fraction of 64 bits"):
        columns(ids, "id STRING, ref BIGINT")
    assert columns(ids, "id STRING, ref DOUBLE")[0]["ref"] == 1234567890123456768.0
    lines = written(tmp_path / "k.jsonl", '{"key": 100.0, "value": 1}\n{"key": [7.0, 7.5, "7.0"], "value": 2}\n')
    assert set(content(lines, plan_of()).texts) == {"100", '[7,7.5,"7.0"]'}


def test_one_bad_row_is_no_reason_to_refuse_the_others(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]*:2: expected 2 fields, found 3$"):
        columns(written(tmp_path / "t.csv", "id,n\nA,1,extra\nB,2\nC,3\n"), "id STRING, n INT")
    with pytest.raises(UsageError, match="has no column id, of the key"):
        columns(written(tmp_path / "t.csv", "ID,n\nA,1,extra\nB,2\n"), "id STRING, n INT")


def test_text_of_parquet_that_is_not_utf8_is_refused_in_a_sentence(tmp_path: Path) -> None:
    buffers = [None, pa.py_buffer(b"\0\0\0\0\6\0\0\0"), pa.py_buffer(b"Z\xfcrich")]
    file = parquet(tmp_path / "t.parquet", pa.table({"id": ["1"], "v": pa.Array.from_buffers(pa.string(), 1, buffers)}))
    with pytest.raises(UsageError, match=r"column v has text that is not UTF-8: b'Z\\xfcrich'"):
        pairs(file, key="id")


def test_an_export_writes_no_other_kind_of_file(tmp_path: Path) -> None:
    for name in ("t.csv.gz", "t.parquet.gz", "t.tsv", "t"):
        with pytest.raises(UsageError, match=r"ends in .csv or .parquet"):
            export_format(name, None)
    assert export_format("t.csv.gz", "csv") == "csv"
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(UsageError, match="is no file"):
        write_pairs([("a", 1)], {}, str(tmp_path / "t.csv"), None)
