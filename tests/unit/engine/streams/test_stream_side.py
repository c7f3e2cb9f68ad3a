"""Records of a stream as joins and aggregations read them, without Spark."""

from __future__ import annotations

import json
import zlib
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.streams.event import ChannelDecoder, InputRecord, TopicDecoder
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.engine.streams.stream_side import SCHEMA, ReadRecords
from kaspr_delta.plan.definition.resources import SerializerName, Serializers
from kaspr_delta.serde.instants import moment_of
from kaspr_delta.serde.joined_text import JoinedText
from kaspr_delta.serde.table_text import TableText
from tests.unit.engine.agent.agents import JSON, NOON, arrow, code, record

RAW = Serializers("raw", "raw")
A, K, SORTED = record(1, key="a"), record(b"1")._replace(key=b"k"), '{"a":2,"b":1}'
EXITS = ("SystemExit", "KeyboardInterrupt", "GeneratorExit")


def selector(source: str, table: Serializers = JSON, timeout: float = 60) -> Selector:
    return Selector(code(source), TableText(table), "extractor", "key", timeout)


def reading(
    selects: Selector | None = None,
    serializers: Serializers = JSON,
    partitions: int | None = None,
    keys: TableText | None = None,
) -> ReadRecords:
    return ReadRecords(TopicDecoder(serializers), TableText(serializers), selects, partitions, keys)


def read(reader: ReadRecords, *records: InputRecord) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.Table.from_batches(reader([arrow(records)]), SCHEMA).to_pylist()
    return rows


ID, POP = selector("def f(value): return value['id']"), selector("def f(value): return value.pop('id')")
BOTH = selector("def f(value, key): return [value, key]")
READ = {
    "without a function it is looked up by its own key": (reading(), A, ('"a"', "1", '"a"')),
    "keys are canonical": (reading(), record(1, key={"b": 1, "a": 2}), (SORTED, "1", SORTED)),
    "no key and no value": (reading(), record(1)._replace(value=None), (None, None, None)),
    "a null is no key and no value": (reading(), record(None)._replace(key=b"null"), (None, None, None)),
    "bytes are base64": (reading(serializers=RAW), K._replace(value=b"\xff"), ("aw==", "/w==", "aw==")),
    "the table spells the key": (reading(serializers=RAW, keys=TableText(JSON)), K, ("aw==", "MQ==", '"k"')),
    "a function may take the key": (
        reading(selector("def f(value, key): return [value, key]")),
        A,
        ('"a"', "1", '[1,"a"]'),
    ),
    "no function is called without a value": (reading(ID), record(None, key="a"), ('"a"', None, None)),
    "a function changes only its own copy": (reading(POP), record({"id": 1}, key="a"), ('"a"', '{"id":1}', "1")),
}


@pytest.mark.parametrize(("reader", "given", "expected"), READ.values(), ids=READ)
def test_a_record_has_key_and_value_as_text_and_a_key_to_look_up(
    reader: ReadRecords, given: InputRecord, expected: tuple[str | None, ...]
) -> None:
    (row,) = read(reader, given)
    assert (row["key"], row["value"], row["look_up"]) == expected
    assert (row["problem"], row["unreadable"]) == (None, False)
    assert (row["source"], row["partition"], row["offset"], row["timestamp"]) == ("in", 0, 0, moment_of(NOON))


@pytest.mark.parametrize("field", ["key", "value"])
def test_an_unreadable_record_is_a_problem_and_the_next_is_read(field: str) -> None:
    unreadable: dict[str, Any] = {field: b"{"}
    broken, sound = read(reading(), A._replace(**unreadable), record(2, key="b"))
    assert broken["unreadable"]
    assert (broken["value"], broken["look_up"]) == (None, None)
    assert broken["key"] == ("{" if field == "key" else '"a"')
    assert broken["problem"]["reason"] == "record cannot be read"
    assert broken["problem"]["value"] == ("{" if field == "value" else "1")
    assert (sound["key"], sound["unreadable"], sound["problem"]) == ('"b"', False, None)


def test_a_record_without_time_and_partition_gets_the_current_time_and_0() -> None:
    began = datetime.now(timezone.utc)
    nowhere: dict[str, Any] = {"timestamp": None, "partition": None}
    (row,) = read(reading(), A._replace(**nowhere))
    assert row["timestamp"] >= began
    assert row["partition"] == 0


def test_no_records_give_no_rows() -> None:
    assert read(reading()) == []
    assert list(reading()([])) == []


@pytest.mark.parametrize(("value", "left", "shown"), [("json", '{"n":1}', '{"n":1}'), ("raw", "/w==", '"/w=="')])
def test_values_of_a_channel_are_pairs_in_json_with_bytes_in_base64(
    value: SerializerName, left: str, shown: str
) -> None:
    side = TableText(Serializers("json", value))
    reader = ReadRecords(ChannelDecoder(JoinedText(side, side, side)), TableText(JSON), None, None)
    (row,) = read(reader, record({"left": left, "right": None}, key="a"))
    assert row["value"] == f'{{"left":{shown},"right":null}}'


def test_the_result_of_a_selector_is_a_key_of_the_table() -> None:
    assert selector("def f(value): return value")({"b": 1, "a": 2}, None, "").key == SORTED
    assert selector("def f(value): return b'k'", RAW)({}, None, "").key == "aw=="
    refused = selector("def f(value): return 'k'", RAW)({}, None, "").problem
    assert refused is not None
    assert "raw keys" in str(refused["detail"])
    for key in (0, "", False):
        assert selector("def f(value): return value")(key, None, "").key == json.dumps(key)
    assert selector("def f(value): return None")(0, None, "") == (None, None)


ENDLESS = "def f(value):\n    while True:\n        pass"


@pytest.mark.parametrize(
    ("source", "reason", "detail"),
    [
        ("def f(value): return value['id']", "extractor failed", "KeyError"),
        *((f"def f(value): raise {error}", "extractor failed", error) for error in EXITS),
        ("def f(value): return object()", "key cannot be used", "object"),
        (ENDLESS, "extractor failed", "longer than"),
    ],
)
def test_a_failing_selector_gives_a_problem_and_no_look_up_key(source: str, reason: str, detail: str) -> None:
    failing = selector(source, timeout=0.1 if source is ENDLESS else 60)
    (row,) = read(reading(failing), record({}, key="a"))
    assert (row["key"], row["value"], row["look_up"], row["unreadable"]) == ('"a"', "{}", None, False)
    assert (row["problem"]["reason"], row["problem"]["value"]) == (reason, "{}")
    assert detail in row["problem"]["detail"]
    assert failing.keys_of([{}], [None]) is None


PARTITIONS = {
    "its own": (reading(), A._replace(partition=5), 5),
    "that of its key": (reading(partitions=4), A, zlib.crc32(b'"a"') % 4),
    "that of the bytes of its key": (reading(partitions=4, serializers=RAW), K, zlib.crc32(b"k") % 4),
    "that of the selected key": (reading(ID, partitions=4), record({"id": "b"}, key="a"), zlib.crc32(b'"b"') % 4),
    "0 without a key": (reading(partitions=4), record(1)._replace(partition=9), 0),
}


@pytest.mark.parametrize(("reader", "given", "partition"), PARTITIONS.values(), ids=PARTITIONS)
def test_the_partition_of_a_record_that_is_repartitioned_or_not(
    reader: ReadRecords, given: InputRecord, partition: int
) -> None:
    (row,) = read(reader, given)
    assert row["partition"] == partition
