"""A load into a typed table, into another table, and a bound topic read the same cells of a file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from kaspr_delta.api.load import LoadOptions, load_format, read_content, rows_in
from kaspr_delta.engine.binding.file_records import FileRecords
from kaspr_delta.plan.definition.bindings import FilesPlan
from tests.unit.api.test_load import plan_of
from tests.unit.serde.files.csv_files import FILES, cells_of

SCHEMA = "id STRING, note STRING"


def by_typed_load(file: Path) -> list[dict[str, str]]:
    name = str(file)
    rows = rows_in(name, load_format(name, None))
    found = read_content(plan_of(SCHEMA), name, rows, LoadOptions(), json=False).columns
    assert found is not None
    read: list[dict[str, str]] = found.to_pylist()
    return read


def by_load(file: Path) -> list[dict[str, str]]:
    name, options = str(file), LoadOptions(("id",), ("id", "note"))
    content = read_content(plan_of(), name, rows_in(name, load_format(name, None)), options, json=False)
    return [json.loads(text or "null") for text in content.texts.values()]


def by_topic(file: Path) -> list[dict[str, str]]:
    delimiter = "\t" if ".tsv" in file.name else ","
    plan = FilesPlan("/in", "csv", SCHEMA, "id", None, header=True, delimiter=delimiter)
    records = list(FileRecords(plan).records(f"file:{file}", pa.py_buffer(file.read_bytes())))
    assert [one.detail for one in records] == [None] * len(records)
    values = [json.loads(one.value or "null") for one in records]
    assert [json.loads(one.key or "null") for one in records] == [value["id"] for value in values]
    return values


@pytest.mark.parametrize("reader", [by_typed_load, by_load, by_topic])
@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_each_reader_finds_the_cells_that_python_finds(
    tmp_path: Path, data: bytes, reader: Callable[[Path], list[dict[str, str]]]
) -> None:
    names = {"f.csv": data, "f.csv.gz": gzip.compress(data)}
    if b'"' not in data:
        names["f.tsv"] = data.replace(b",", b"\t")
    for name, content in names.items():
        file = tmp_path / name
        file.write_bytes(content)
        assert reader(file) == cells_of(data), name
