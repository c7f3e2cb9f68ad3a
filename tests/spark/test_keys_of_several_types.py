"""Tables and results with keys of several types: reads, exports and pages have all rows, in a fixed order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow.csv import read_csv
from pyarrow.parquet import read_table
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.web.past import Past
from tests.folders import delta_rs
from tests.manifests import opened

pytestmark = pytest.mark.further

MANIFESTS = """
KasprTable/things: {}
KasprJoin/pairs: {leftTable: things, rightTable: things, "on": key}
"""
# By key text: the order of ``rows``.
BY_TEXT: list[Any] = ["10", "b", 10, 2.5, 9, ("x", 1), False, {"k": 1}]
# Numbers by value, then all other keys by key text: the order in exported files.
IN_FILES = ["2.5", "9", "10", '"10"', '"b"', '["x",1]', "false", '{"k":1}']


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Application:
    folder = tmp_path_factory.mktemp("keys")
    app = opened(spark, folder, "keys", MANIFESTS)
    app.table("things").put([(key, {"of": key, "all": [key, 0]}) for key in BY_TEXT])
    app.run()
    return app


def test_tables_and_results_are_read_and_exported_in_a_fixed_order(app: Application, tmp_path: Path) -> None:
    """Values of several types are JSON text in files."""
    of_table = [{"of:json": text, "all:json": f"[{text},0]"} for text in IN_FILES]
    of_join = [{"of": text, "all": [text, "0"]} for text in IN_FILES]
    for handle, column, name, values in (
        (app.table("things"), "key:json", "value", of_table),
        (app.join("pairs"), "key", "right", of_join),
    ):
        assert [key for key, _ in handle.rows()] == BY_TEXT
        assert list(handle.to_dict()) == BY_TEXT
        assert sorted(str(row["key"]) for row in handle.df.select("key").collect()) == sorted(IN_FILES)
        for ending, read in (("csv", read_csv), ("parquet", read_table)):
            file = tmp_path / f"exported.{ending}"
            assert handle.export(str(file)) == len(BY_TEXT)
            exported = read(file).to_pylist()
            assert [row[column] for row in exported] == IN_FILES
        assert [row[name] for row in exported] == values


def test_pages_sort_their_rows_by_key_text(app: Application) -> None:
    reads = NativePageReads(delta_rs(app.delta.namespace))
    for name in ("things", "pairs"):
        past = Past.of(reads, name)
        rows = past.then(past.versions[-1]).rows
        assert [row["key"] for row in rows] == ['"10"', '"b"', "10", "2.5", "9", '["x",1]', "false", '{"k":1}']
        assert len(past.then(0).since) == len(rows)
