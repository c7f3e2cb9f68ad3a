"""Topics that are read from files or written to files, and tables that are loaded from files and exported."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow.csv import read_csv
from pyarrow.parquet import read_table
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from kaspr_delta import Application
from kaspr_delta.api.load import Content
from kaspr_delta.engine.binding.connectors import need
from kaspr_delta.errors import UsageError
from kaspr_delta.storage.namespace import LocalNamespace
from tests.manifests import manifests, opened
from tests.spark.killing import killed
from tests.spark.order_system import join_and_reader

pytestmark = pytest.mark.further

MANIFESTS = """
KasprApp/files:
  topics:
    lines:
      files: {{path: {folder}/lines, format: json, key: id, timestamp: at}}
    rows:
      files:
        path: {folder}/rows
        format: csv
        schema: "id STRING, n INT, price DECIMAL(6, 2), day DATE"
        key: id
        delimiter: ";"
    written:
      files: {{path: {folder}/written, format: json}}
    copied:
      files: {{path: {folder}/copied, format: parquet}}
KasprAgent/number:
  input:
    topic:
      name: lines, rows
  output:
    topics:
      - name: written
        keySelector:
          python: "def key(value): return value['id']"
      - name: copied
  processors:
    pipeline: [only]
    operations:
      - name: only
        filter:
          python: "def only(value): return value is not None and 'id' in value"
"""


@pytest.fixture
def app_dir(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "app.yaml").write_text(manifests("files", MANIFESTS.format(folder=tmp_path)))
    return tmp_path / "app"


def put(path: Path, text: str) -> None:
    """Write a file that is complete when it becomes visible."""
    path.parent.mkdir(exist_ok=True)
    hidden = path.with_name(f"_{path.name}")
    hidden.write_text(text, encoding="utf-8", errors="surrogateescape")  # for bytes that are not UTF-8
    hidden.rename(path)


def records(app: Application, topic: str) -> list[tuple[Any, Any, int]]:
    return [(record["key"], record["value"], record["timestamp"]) for record in app.topic(topic).records()]


def lines_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("batch=*/part-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def auto_loader(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A fake of Auto Loader, the source ``cloudFiles`` on Databricks. Returns the formats that are read by it.

    Auto Loader takes the format and some of Spark's options with the prefix ``cloudFiles.``.
    """
    set_format, set_option, formats = DataStreamReader.format, DataStreamReader.option, set[str]()

    def format_(reader: DataStreamReader, source: str) -> DataStreamReader:
        return reader if source == "cloudFiles" else set_format(reader, source)

    def option(reader: DataStreamReader, name: str, value: Any) -> DataStreamReader:
        if name == "cloudFiles.format":
            formats.add(value)
            return set_format(reader, value)
        return set_option(reader, name.removeprefix("cloudFiles."), value)

    monkeypatch.setattr(LocalNamespace, "on_databricks", property(lambda _: True))
    monkeypatch.setattr(DataStreamReader, "format", format_)
    monkeypatch.setattr(DataStreamReader, "option", option)
    return formats


@pytest.mark.slow
def test_files_give_the_same_records_through_auto_loader(
    spark: SparkSession, tmp_path: Path, app_dir: Path, auto_loader: set[str]
) -> None:
    for folder in ("lines", "rows"):  # Auto Loader creates no folder
        (tmp_path / folder).mkdir()
    test_rows_of_files_become_records_or_dead_letters_and_an_unreadable_file_one_dead_letter(spark, tmp_path, app_dir)
    assert auto_loader == {"binaryFile"}


def test_rows_of_files_become_records_or_dead_letters_and_an_unreadable_file_one_dead_letter(
    spark: SparkSession, tmp_path: Path, app_dir: Path
) -> None:
    app = Application.open(app_dir, warehouse=tmp_path / "wh", spark=spark)
    put(
        tmp_path / "lines" / "b.json",
        '{"id": "first", "at": 1000}\nno json\n\n{"id": 7, "at": "2026-01-02T03:04:05Z", "x": [1, null]}\n'
        '{"id": "when", "at": "nonsense"}\n{"at": 2000}\n{"id": "caf\udce9"}\n{"id": 8, "id": 9}\n',
    )
    put(
        tmp_path / "rows" / "a.csv",
        'id;n;price;day\nP1;1;9.50;2026-01-02\nP2;x;1.00;2026-01-02\n"P;3";;;\nP4;4\nP5;5;0.125;2026-01-02\n'
        '"P\n""7""";;;\nP8\\;;;\ncaf\udce9;6;;\nP6;"open',
    )
    app.run()
    assert records(app, "lines") == [
        ("first", {"id": "first", "at": 1000}, 1_000),
        (7, {"id": 7, "at": "2026-01-02T03:04:05Z", "x": [1, None]}, 1_767_323_045_000),
        (None, {"at": 2000}, 2_000),
    ]
    assert [(key, value) for key, value, _ in records(app, "rows")] == [
        ("P1", {"id": "P1", "n": 1, "price": 9.5, "day": "2026-01-02"}),
        ("P;3", {"id": "P;3", "n": None, "price": None, "day": None}),
        ('P\n"7"', {"id": 'P\n"7"', "n": None, "price": None, "day": None}),
        ("P8\\", {"id": "P8\\", "n": None, "price": None, "day": None}),
    ]
    letters = {letter["value"]: letter for letter in app.dead_letters()}
    assert set(letters) == {
        "no json",
        '{"id": "when", "at": "nonsense"}',
        "P2;x;1.00;2026-01-02",
        "P4;4",
        "P5;5;0.125;2026-01-02",
        '{"id": "caf\ufffd"}',
        "caf\ufffd;6;;",
        'P6;"open',
        '{"id": 8, "id": 9}',
    }
    details = {value: letter["detail"] for value, letter in letters.items()}
    assert details['{"id": "caf\ufffd"}'].startswith("b.json:7:12: this is not UTF-8 text: byte 0xe9")
    assert details["P2;x;1.00;2026-01-02"] == "a.csv:3: n is INT, and 'x' is not"
    assert details["P4;4"] == "a.csv:5: expected 4 fields, found 2"
    assert details["P5;5;0.125;2026-01-02"] == "a.csv:6: price is DECIMAL(6,2), and '0.125' is not"
    assert details['{"id": 8, "id": 9}'] == "b.json:8: the name 'id' stands twice in an object"
    assert letters["no json"]["resource"] == "topic/lines"
    assert letters["no json"]["source"].endswith("/lines/b.json")
    assert letters["P4;4"]["reason"] == "record cannot be read"
    # The output: one JSON line for each record, and rows of Parquet files.
    out = [(line["key"], line["value"]) for line in lines_in(tmp_path / "written")]
    there = [(record["key"], record["value"]) for record in app.topic("written").records()]
    assert Counter(map(repr, out)) == Counter(map(repr, there))
    copied = read_table(tmp_path / "copied", partitioning=None).to_pylist()
    assert Counter(json.loads(row["value"])["id"] for row in copied) == {
        "first": 1,
        7: 1,
        "P1": 1,
        "P;3": 1,
        'P\n"7"': 1,
        "P8\\": 1,
    }

    put(tmp_path / "lines" / "a.json", '{"id": "second"}\n')
    # A file that cannot be read is one dead letter, and the others are read.
    put(tmp_path / "rows" / "missing.csv", "n;id;cost;day\n1;R0;9.50;2026-01-02\n")
    put(tmp_path / "rows" / "other_order.csv", "day;more;id;n;price\n2026-01-02;x;R1;1;9.50\n")
    packed = gzip.compress(b"id;n;price;day\nR2;2;1;2026-01-02\n" * 2_000)
    whole = gzip.compress(b"\xef\xbb\xbfid;n;price;day\r\nR3;3;1;2026-01-02\r\n")
    (tmp_path / "rows" / "whole.csv.gz").write_bytes(whole)
    (tmp_path / "rows" / "breaks_off.csv.gz").write_bytes(packed[: len(packed) // 2])
    app.run()
    keys = {key for key, _, _ in records(app, "rows") if key.startswith("R")}
    assert {"R1", "R3"} <= keys <= {"R1", "R2", "R3"}
    assert Counter(letter["detail"].split(" ", 1)[0] for letter in app.dead_letters() if not letter["value"]) == {
        "missing.csv:": 1,
        "breaks_off.csv.gz": 1,
    }
    assert [key for key, _, _ in records(app, "lines")] == ["first", 7, None, "second"]
    written = lines_in(tmp_path / "written")
    assert len([line for line in written if not str(line["key"]).startswith("R")]) == 7
    with pytest.raises(UsageError, match=r"the records of topic 'lines' come from json files in .*: put a file there"):
        app.topic("lines").produce([{"value": 1}])


@pytest.mark.slow
def test_many_rows_keep_the_order_of_their_files(spark: SparkSession, tmp_path: Path, app_dir: Path) -> None:
    app = Application.open(app_dir, warehouse=tmp_path / "wh", spark=spark)
    for file in range(3):
        lines = [
            f'{{"id": {file * 2_000 + number}}}' if number % 500 else f"broken {number}" for number in range(2_000)
        ]
        put(tmp_path / "lines" / f"{9 - file}.json", "\n".join(lines) + "\n")
        time.sleep(0.01)  # files are read in the order in which they were written
    app.run()
    assert [key for key, _, _ in records(app, "lines")] == [n for n in range(6_000) if n % 500]
    assert len(app.dead_letters()) == 12


@pytest.mark.slow
def test_retention_removes_records_from_the_log_of_an_ingest_too(
    spark: SparkSession, tmp_path: Path, app_dir: Path
) -> None:
    file = app_dir / "app.yaml"
    file.write_text(file.read_text().replace("name: lines, rows", "name: lines, rows\n      retention: 3600"))
    app = Application.open(app_dir, warehouse=tmp_path / "wh", spark=spark)
    put(tmp_path / "lines" / "a.json", '{"id": "old", "at": 1000}\n{"id": "new"}\n')
    app.run()
    app.run()  # old records are removed when a run begins
    logged = app.sql("SELECT CAST(key AS STRING) AS key FROM ingest__lines WHERE kind = 'send'").collect()
    rest = app.sql("SELECT CAST(key AS STRING) AS key FROM topic__lines").collect()
    assert [row["key"] for row in logged] == [row["key"] for row in rest] == ['"new"']
    assert [line["key"] for line in lines_in(tmp_path / "written")] == ["old", "new"]


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_kills_around_each_write_neither_lose_nor_double_rows_of_files(
    spark: SparkSession, tmp_path: Path, app_dir: Path
) -> None:
    warehouse = tmp_path / "wh"
    app = Application.open(app_dir, warehouse=warehouse, spark=spark)
    app.run()
    ingest = ["ingest__lines", "topic__lines", "_kaspr_dead_letters", "_kaspr_progress"]
    for number, table in enumerate(ingest):
        put(tmp_path / "lines" / f"{number}.json", f'{{"id": {number}, "at": {number}}}\nbroken {number}\n')
        killed(app_dir, warehouse, "topic/lines", (table, "after" if number % 2 else "before"))
        app.run()
        assert [key for key, _, _ in records(app, "lines")] == list(range(number + 1))
        assert sorted(letter["value"] for letter in app.dead_letters()) == [f"broken {n}" for n in range(number + 1)]
    for number, table in enumerate(["export__written", "_kaspr_progress"], start=len(ingest)):
        put(tmp_path / "lines" / f"{number}.json", f'{{"id": {number}}}\n')
        app.run(only=["topic/lines", "agent/number"])
        killed(app_dir, warehouse, "topic/written", (table, "before"))
        app.run()
        assert sorted(line["key"] for line in lines_in(tmp_path / "written")) == list(range(number + 1))


@pytest.mark.slow  # the connector for Avro comes from Maven
def test_rows_of_parquet_and_avro_files_are_records(spark: SparkSession, tmp_path: Path) -> None:
    need(spark, "avro")
    schema = "order_id BIGINT, price DECIMAL(6, 2), at TIMESTAMP, tags ARRAY<STRING>"
    columns = f"schema: '{schema}', key: order_id, timestamp: at"
    app_file = tmp_path / "app.yaml"
    topics = [
        f"    {kind}:\n      files: {{path: {tmp_path}/{kind}, format: {kind}, {columns}}}\n"
        for kind in ("parquet", "avro")
    ]
    app_file.write_text(
        "apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata: {name: typed}\nspec:\n  topics:\n" + "".join(topics)
    )
    moment = "TIMESTAMP'2026-01-02T03:04:05.678Z' AS at"
    row = ("1L AS order_id", "CAST(9.5 AS DECIMAL(6, 2)) AS price", moment, "array('a') AS tags", "2 AS more")
    for kind in ("parquet", "avro"):
        spark.range(1).selectExpr(*row).write.format(kind).save(f"{tmp_path}/{kind}")
    with Application.open(app_file, warehouse=tmp_path / "wh", spark=spark) as app:
        app.run()
        for kind in ("parquet", "avro"):
            ((key, value, at),) = records(app, kind)
            assert (key, at) == (1, 1_767_323_045_678), kind
            assert value == {"order_id": 1, "price": 9.5, "at": "2026-01-02T03:04:05.678Z", "tags": ["a"]}, kind


CATALOGUE = """
KasprTable/plain: {}
KasprTable/again: {}
KasprTable/items:
  schema: "id STRING, price DECIMAL(20, 2), at TIMESTAMP, tags ARRAY<STRING>, box STRUCT<cm: INT>, data BINARY"
  key: id
KasprTable/items-again:
  schema: "id STRING, price DECIMAL(20, 2), at TIMESTAMP, tags ARRAY<STRING>, box STRUCT<cm: INT>, data BINARY"
  key: id
"""


def test_what_a_table_exports_another_one_loads_and_keys_keep_their_kind(spark: SparkSession, tmp_path: Path) -> None:
    app = opened(spark, tmp_path, "catalogue", CATALOGUE)
    plain, items = app.table("plain"), app.table("items")
    (tmp_path / "p1.csv").write_text("sku,name\n100,Lamp\n200,Sofa\n")
    (tmp_path / "p2.csv").write_text("sku,name\n100,Lamp II\n200,Sofa II\nA7,Desk\n")
    assert (plain.load(str(tmp_path / "p1.csv"), key="sku"), plain.load(str(tmp_path / "p2.csv"), key="sku")) == (2, 3)
    assert {key: value["name"] for key, value in plain.rows()} == {"A7": "Desk", 100: "Lamp II", 200: "Sofa II"}
    with pytest.raises(UsageError, match=r'key "100" .* is not key 100, .*: load with --number sku'):
        plain._check_kinds(Content("x.csv", 1, {'"100"': "1"}, key=("sku",)))
    plain.put({"007": {"n": 12345678901234567.0, "s": "1"}})
    (tmp_path / "items.csv").write_text(
        'id,price,at,tags,box,data\n007,9.99,2024-05-01T10:00:00.123456Z,"[""a""]","{""cm"": 5}",YQ==\n"",,,,,\n'
    )
    assert items.load(str(tmp_path / "items.csv")) == 2
    assert items.get("007")["price"] == Decimal("9.99")
    delta = ("id", "CAST(price AS DOUBLE) AS price", "at", "tags", "box", "data")
    items.df.selectExpr(*delta).write.format("delta").save(str(tmp_path / "delta"))
    for one, source, name in (
        (plain, "x.csv", "again"),
        (items, "x.parquet", "items-again"),
        (items, "delta", "items-again"),
    ):
        other = app.table(name)
        if source != "delta":
            one.export(str(tmp_path / source))
        else:
            other.delete([key for key, _ in other.rows()])
        assert other.load(str(tmp_path / source)) == one.df.count()
        assert other.rows() == one.rows(), source
    for price in ("9.999D", "0.1F"):
        rounds = items.df.selectExpr("id", f"{price} AS price")
        rounds.write.format("delta").mode("overwrite").option("overwriteSchema", True).save(str(tmp_path / "rounds"))
        with pytest.raises(UsageError, match=r"column price has 2 values that are not DECIMAL\(20,2\)"):
            items.load(str(tmp_path / "rounds"))


def test_tables_are_loaded_from_files_and_results_exported_to_them(spark: SparkSession, tmp_path: Path) -> None:
    app = Application.open(join_and_reader(tmp_path), warehouse=tmp_path / "wh", spark=spark)
    products = tmp_path / "products.csv"
    products.write_text("sku,name,price\nP1,Lamp,9.50\nP2,Table,120\n")
    assert app.table("products").load(str(products), key="sku") == 2
    orders = tmp_path / "orders"
    columns = ("concat('O', id) AS order_id", "concat('P', id) AS product_id", "id AS quantity", "array(id) AS tags")
    spark.range(1, 4).selectExpr(*columns).write.format("delta").save(str(orders))
    assert app.table("orders").load(str(orders), key="order_id") == 3
    app.run(only=["join/orders-products-join"])

    joined = app.join("orders-products-join")
    assert joined.export(str(tmp_path / "out" / "joined.parquet")) == 2
    first = read_table(tmp_path / "out" / "joined.parquet").to_pylist()[0]
    assert (first["key"], first["left"]["quantity"], first["right"]) == (
        "O1",
        1,
        {"name": "Lamp", "price": 9.5, "sku": "P1"},
    )
    assert joined.export(str(tmp_path / "joined.csv")) == 2
    flat = read_csv(tmp_path / "joined.csv").to_pylist()
    assert [(row["key"], row["left.quantity"], row["left.tags"], row["right.price"]) for row in flat] == [
        ("O1", 1, "[1]", 9.5),
        ("O2", 2, "[2]", 120.0),
    ]
    assert app.table("products").export(str(tmp_path / "products.data"), "parquet") == 2
