"""docs/reading-results.md: its snippets print what it says, and readers take or refuse tables as it says."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError
from pyarrow import parquet

from kaspr_delta.spec.ddl import Column, Type
from kaspr_delta.storage.layout import needs_mapping
from tests.documented import Block
from tests.reading_results import PAGE, packages_of, printed, snippets, write_results

WITHOUT_JAVA = [pair for pair in snippets() if "spark." not in pair[0].text]
# No package of this repository needs Polars, and its tests show what is said where it is missing.
MAY_BE_MISSING = {"polars"}


@pytest.mark.parametrize(("block", "documented"), WITHOUT_JAVA, ids=[str(block) for block, _ in WITHOUT_JAVA])
def test_a_snippet_prints_what_the_page_says(
    block: Block, documented: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {name for name in packages_of(block) if importlib.util.find_spec(name) is None}
    assert missing <= MAY_BE_MISSING
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    write_results(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert printed(block) == documented


def test_all_ways_of_reading_have_a_snippet_and_most_run_without_java() -> None:
    used = {name for block, _ in WITHOUT_JAVA for name in packages_of(block)}
    assert {"kaspr_delta", "polars", "duckdb", "pandas", "deltalake"} <= used
    assert len(list(snippets())) == len(WITHOUT_JAVA) + 1


def table_with(folder: Path, feature: str) -> str:
    """A table of the keys a, b and c with a feature of Delta; a deletion vector has removed b."""
    names = ["col-1"] if feature == "columnMapping" else ["key"]
    parquet.write_table(pa.table([["a", "b", "c"]], names), folder / "f.parquet")
    size = (folder / "f.parquet").stat().st_size
    add: dict[str, Any] = {"path": "f.parquet", "partitionValues": {}, "size": size, "modificationTime": 1}
    named, settings = {}, {"delta.enableDeletionVectors": "true"}
    if feature == "columnMapping":
        named = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
        settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    else:
        add["deletionVector"] = deletion_vector(1)
    schema = {"type": "struct", "fields": [{"name": "key", "type": "string", "nullable": True, "metadata": named}]}
    versions = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature], "writerFeatures": [feature]}
    made = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "createdTime": 0}
    actions: list[dict[str, Any]] = [
        {"protocol": versions},
        {"metaData": {**made, "schemaString": json.dumps(schema), "configuration": settings}},
        {"add": {**add, "dataChange": True, "stats": json.dumps({"numRecords": 3, "tightBounds": False})}},
    ]
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def deletion_vector(row: int) -> dict[str, Any]:
    """A deletion vector of one row, in the log itself: a Roaring bitmap with one array of one number, as Z85."""
    bitmap = pack("<IQI", 1681511377, 1, 0) + pack("<IIHHIH", 12346, 1, 0, 0, 16, row)
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    filled, text = bitmap + bytes(-len(bitmap) % 4), ""
    for at in range(0, len(filled), 4):
        number = int.from_bytes(filled[at : at + 4], "big")
        text += "".join(letters[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bitmap), "cardinality": 1}


@pytest.mark.parametrize(("feature", "keys"), [("deletionVectors", ["a", "c"]), ("columnMapping", ["a", "b", "c"])])
def test_readers_take_or_refuse_features_as_the_page_says(tmp_path: Path, feature: str, keys: list[str]) -> None:
    path = table_with(tmp_path, feature)
    found = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT key FROM t").read_all()
    assert pa.table(found)["key"].to_pylist() == keys
    for refused in (DeltaTable(path).to_pandas, DeltaTable(path).to_pyarrow_dataset):
        with pytest.raises(DeltaProtocolError, match=feature):
            refused()
    if importlib.util.find_spec("polars") is not None:
        polars: Any = importlib.import_module("polars")
        if feature == "columnMapping":
            with pytest.raises(DeltaProtocolError, match=feature):
                polars.read_delta(path)
        else:
            assert polars.read_delta(path)["key"].to_list() == keys
    listed = dict(re.findall(r"(?m)^\| (.+?) \| (reads \| \w+|refuses \| \w+) \|$", PAGE.read_text()))
    at = ["deletionVectors", "columnMapping"].index(feature)
    assert listed["`QueryBuilder` of deltalake 1.6"].split(" | ")[at] == "reads"
    assert listed["`DeltaTable.to_pandas`, `to_pyarrow_dataset`"].split(" | ")[at] == "refuses"


def test_a_blank_or_a_comma_in_a_name_needs_column_mapping_as_the_page_says() -> None:
    assert [needs_mapping([Column(name, Type("INT"))]) for name in ("unit price", "a,b", "unit_price", "größe")] == [
        True,
        True,
        False,
        False,
    ]
