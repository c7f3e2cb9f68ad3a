from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.spec.ddl import columns_of, quoted
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.dialect import DATAFUSION
from kaspr_delta.storage.folders import Stamp
from kaspr_delta.storage.layout import SYSTEM, TOPIC, TOPICS, Layout
from kaspr_delta.storage.native.delta_rs import DeltaRs, append_to, in_spite_of_others
from kaspr_delta.storage.native.kept import OpenTable
from kaspr_delta.storage.native.log_files import commit_file
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.tables import Transaction
from tests.folders import folder_of


def names(*given: str) -> pa.Table:
    return pa.table({"name": pa.array(given, pa.string())})


def commit(delta: DeltaRs, version: int) -> Path:
    return folder_of(delta.namespace, "t") / commit_file(version)


@pytest.mark.parametrize("layout", [*SYSTEM.values(), TOPIC])
def test_every_layout_that_is_written_without_spark_has_an_arrow_schema(layout: Layout) -> None:
    assert arrow_schema(layout.columns).names == [column.name for column in columns_of(layout.columns)]


def test_a_missing_table_reads_as_empty(delta: DeltaRs) -> None:
    assert delta.head("t") is None
    assert delta.rows("t") == []
    assert delta.count("t") == 0
    assert delta.table_id("t") is None
    assert delta.rows_changed("t", 0) == 0
    assert list(delta.changes("t", 0, 1)) == []


def test_a_created_table_has_the_properties_and_types_of_its_layout(delta: DeltaRs) -> None:
    delta.ensure("t", TOPIC)
    delta.ensure("t", TOPIC)
    actions = [json.loads(line) for line in commit(delta, 0).read_text().splitlines()]
    (metadata,) = (action["metaData"] for action in actions if "metaData" in action)
    assert metadata["configuration"] == TOPIC.properties
    types = [field["type"] for field in json.loads(metadata["schemaString"])["fields"]]
    assert (types[0], types[3]) == ("binary", "timestamp")
    assert not commit(delta, 1).exists()


def test_comments_of_columns_are_kept_by_appends(delta: DeltaRs) -> None:
    storage = StoragePlan("All of them", column_comments=(("name", "of the day"),))
    delta.ensure("t", Layout("name STRING, n INT", storage=storage))
    delta.append("t", names("a"))
    assert delta.comments("t") == storage
    assert delta.comments("of nothing") == StoragePlan()


def test_appends_from_many_threads_are_all_there(delta: DeltaRs) -> None:
    delta.ensure("t", SYSTEM[TOPICS])
    with ThreadPoolExecutor(12) as at_once:
        list(at_once.map(lambda number: delta.append("t", names(f"n{number}")), range(12)))
    assert {row["name"] for row in delta.rows("t")} == {f"n{number}" for number in range(12)}
    assert delta.count("t") == 12


def test_rows_are_appended_by_the_names_of_their_columns(delta: DeltaRs) -> None:
    delta.ensure("t", TOPIC)
    header = {"key": "h", "value": b"1"}
    element = pa.struct([("key", pa.large_string()), ("value", pa.binary())])
    rows = {"seq": pa.array([1, 2], pa.int32()), "headers": pa.array([[header], None], pa.large_list(element))}
    delta.append("t", pa.table(rows))
    found = sorted(delta.rows("t"), key=lambda row: row["seq"])
    nothing = dict.fromkeys(("key", "value", "timestamp", "partition"))
    assert found == [{**nothing, "seq": 1, "headers": [header]}, {**nothing, "seq": 2, "headers": None}]
    with pytest.raises(ValueError, match="no columns another, other"):
        delta.append("t", pa.table({"seq": [3], "other": [1], "another": [1]}))


def test_a_transaction_is_appended_once(delta: DeltaRs) -> None:
    delta.ensure("t", SYSTEM[TOPICS])
    for name, transaction in (
        ("a", Transaction("one", 0)),
        ("again", Transaction("one", 0)),
        ("b", Transaction("other", 0)),
        ("c", Transaction("one", 2)),
        ("late", Transaction("one", 1)),
        ("d", None),
    ):
        append_to(OpenTable(delta.open("t")), names(name), transaction)
    assert {row["name"] for row in delta.rows("t")} == {"a", "b", "c", "d"}


def test_head_returns_the_known_commit_until_there_is_a_newer_one(delta: DeltaRs) -> None:
    delta.ensure("t", SYSTEM[TOPICS])
    first = delta.head("t")
    assert first is not None
    assert delta.head("t", first) is first
    delta.append("t", names("a", "b"))
    second = delta.head("t", first)
    assert second is not None
    assert second.version == 1
    assert delta.has("t", first)
    assert not delta.has("t", type(first)(1, Stamp(0, "")))
    assert [delta.rows_changed("t", first) for first in range(3)] == [2, 2, 0]


def test_rows_of_system_tables_are_read_back_unchanged(delta: DeltaRs) -> None:
    tables = NativeSystemTables(delta)
    moment = datetime(2020, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone.utc)
    event = (moment, "Normal", "AppFound", "KasprJoin", "j", "it's there")
    tables.append("_kaspr_events", [event, event])
    assert [tuple(row.values()) for row in tables.rows("_kaspr_events")] == [event, event]
    tables.replace("_kaspr_events", [])
    assert tables.rows("_kaspr_events") == []
    assert tables.version("_kaspr_events") == 2


def test_texts_and_names_in_queries_are_escaped(delta: DeltaRs) -> None:
    delta.ensure("t", Layout("`a``b` STRING"))
    texts = ("it's", "\\", '"a" -- b')
    delta.append("t", pa.table({"a`b": texts}))
    for text in texts:
        found = delta.rows("t", f"SELECT * FROM t WHERE {quoted('a`b')} = {DATAFUSION.text(text)}")  # noqa: S608
        assert found == [{"a`b": text}]


APPEND_DECIMALS = """
import sys
from decimal import Decimal
import pyarrow as pa
from deltalake import DeltaTable
from kaspr_delta.storage.namespace import LocalNamespace
from kaspr_delta.storage.native.delta_rs import DeltaRs
from pathlib import Path

values = pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(10, 2))
for shift in (0, 8):
    room = bytes(shift) + values.buffers()[1].to_pybytes()
    kept = pa.allocate_buffer(len(room) + 16)
    memoryview(kept).cast("B")[: len(room)] = room
    moved = pa.Array.from_buffers(values.type, 2, [None, kept.slice(shift)])
    delta = DeltaRs(LocalNamespace(Path(sys.argv[1]), "shop", "shop"))
    schema = pa.schema([("price", values.type)])
    DeltaTable.create(str(delta.namespace.folder("t")), schema=schema, mode="ignore")
    delta.append("t", pa.table({"price": moved}))
print(sorted(str(row["price"]) for row in delta.rows("t")))
"""


def test_decimals_are_appended_however_their_buffer_is_aligned(tmp_path: Path) -> None:
    """In a separate process, because delta-rs would abort it if a buffer was aligned only to 8 bytes."""
    # The command is part of this test.
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", APPEND_DECIMALS, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.strip() == "['1.50', '1.50', '2.25', '2.25']"


def test_tables_of_a_catalog_are_in_no_folder(delta: DeltaRs) -> None:
    with pytest.raises(SetupError, match="not in a folder"):
        delta.head("main.shop.t")


def test_a_feature_that_only_spark_reads_is_named(delta: DeltaRs) -> None:
    delta.ensure("t", SYSTEM[TOPICS])
    features = ["typeWidening"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    commit(delta, 1).write_text(json.dumps({"protocol": protocol}) + "\n")
    with pytest.raises(SetupError, match=r"only Spark reads \(TypeWidening\).* DROP FEATURE"):
        delta.rows("t")


def test_a_commit_waits_for_others_a_little_longer_each_time_but_not_where_no_other_try_helps(
    delta: DeltaRs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("kaspr_delta.storage.native.delta_rs.time", SimpleNamespace(sleep=pauses.append))
    tries = iter([CommitFailedError("Failed to commit transaction: 4"), CommitFailedError("again"), None])

    def commit() -> str:
        if (error := next(tries)) is not None:
            raise error
        return "done"

    assert in_spite_of_others(commit) == "done"
    assert 0 < pauses[0] < pauses[1]
    assert len(pauses) == 2
    delta.ensure("t", Layout("name STRING"))
    delta.append("t", names("a"))
    delta.open("t").alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(CommitFailedError, match="append-only"):
        delta.delete("t", "true")
    assert len(pauses) == 2


def test_rows_are_chosen_again_if_another_writer_commits_meanwhile(delta: DeltaRs) -> None:
    """In a bucket no lock keeps other processes away."""
    delta.ensure("t", SYSTEM[TOPICS])
    seen = list[int]()

    def rows() -> dict[str, list[dict[str, str]]]:
        seen.append(delta.count("t"))
        if len(seen) == 1:
            write_deltalake(str(delta.folder("t")), names("of another writer"), mode="append")
        return {"letter": [{"name": "b"}]}

    assert delta.append_once("t", rows) == 1
    assert seen == [0, 1]
    assert delta.append_once("t", rows) == 0
    assert sorted(row["name"] for row in delta.rows("t")) == ["b", "of another writer"]
