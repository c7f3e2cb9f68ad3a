"""Records of a stream as joins and aggregations read them, without Spark."""

from __future__ import annotations

import json
import zlib
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.streams.event import ChannelDecoder, InputRecord, TopicDecoder, moment_of
from kaspr_delta.engine.streams.selector import Selector
from kaspr_delta.engine.streams.stream_side import SCHEMA, ReadRecords
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.joined_text import JoinedText
from kaspr_delta.serde.table_text import TableText
from tests.unit.engine.agent.agents import JSON, NOON, arrow, code, record

RAW = Serializers("raw", "raw")


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


class TestRecords:
    def test_without_a_function_a_record_is_looked_up_by_its_own_key(self) -> None:
        (row,) = read(reading(), record({"n": 1}, key="a", offset=7))
        assert (row["source"], row["partition"], row["offset"], row["timestamp"]) == ("in", 0, 7, moment_of(NOON))
        assert (row["key"], row["value"], row["look_up"]) == ('"a"', '{"n":1}', '"a"')
        assert (row["problem"], row["unreadable"]) == (None, False)

    def test_keys_are_canonical_key_texts(self) -> None:
        (row,) = read(reading(), record(1, key={"b": 1, "a": 2}))
        assert row["key"] == row["look_up"] == '{"a":2,"b":1}'

    def test_a_null_is_no_key_and_no_value(self) -> None:
        without, nulls = read(reading(), record(1)._replace(value=None), record(None)._replace(key=b"null"))
        for row in (without, nulls):
            assert (row["key"], row["value"], row["look_up"], row["problem"]) == (None, None, None, None)

    def test_bytes_are_base64(self) -> None:
        (row,) = read(reading(serializers=RAW), record(b"\xff")._replace(key=b"k"))
        assert (row["key"], row["value"], row["look_up"]) == ("aw==", "/w==", "aw==")

    @pytest.mark.parametrize("field", ["key", "value"])
    def test_an_unreadable_record_is_a_problem_and_the_next_is_read(self, field: str) -> None:
        unreadable: dict[str, Any] = {field: b"{"}
        broken, sound = read(reading(), record(1, key="a")._replace(**unreadable), record(2, key="b"))
        assert broken["unreadable"]
        assert (broken["value"], broken["look_up"]) == (None, None)
        assert broken["key"] == ("{" if field == "key" else '"a"')
        assert broken["problem"]["reason"] == "record cannot be read"
        assert broken["problem"]["value"] == ("{" if field == "value" else "1")
        assert (sound["key"], sound["unreadable"], sound["problem"]) == ('"b"', False, None)

    def test_a_record_without_time_and_partition_gets_the_current_time_and_0(self) -> None:
        began = datetime.now(timezone.utc)
        nowhere: dict[str, Any] = {"timestamp": None, "partition": None}
        (row,) = read(reading(), record(1, key="a")._replace(**nowhere))
        assert row["timestamp"] >= began
        assert row["partition"] == 0

    def test_no_records_give_no_rows(self) -> None:
        assert read(reading()) == []
        assert list(reading()([])) == []

    def test_the_look_up_key_is_spelled_with_the_tables_serializer(self) -> None:
        (row,) = read(reading(serializers=RAW, keys=TableText(JSON)), record(b"1")._replace(key=b"k"))
        assert (row["key"], row["look_up"]) == ("aw==", '"k"')


class TestChannels:
    def pair(self, left: str | None, right: str | None, value: str) -> dict[str, Any]:
        text = TableText(Serializers("json", "json" if value == "json" else "raw"))
        reader = ReadRecords(ChannelDecoder(JoinedText(text, text, text)), TableText(JSON), None, None)
        data = json.dumps({"left": left, "right": right}).encode()
        (row,) = read(reader, record(data, key="a"))
        return row

    def test_values_are_pairs_in_json(self) -> None:
        assert self.pair('{"n":1}', None, "json")["value"] == '{"left":{"n":1},"right":null}'

    def test_bytes_in_pairs_are_base64(self) -> None:
        assert self.pair("/w==", None, "raw")["value"] == '{"left":"/w==","right":null}'


class TestSelectors:
    def test_a_function_may_take_the_key_of_the_record(self) -> None:
        (row,) = read(reading(selector("def f(value, key): return [value, key]")), record("v", key="k"))
        assert (row["key"], row["look_up"]) == ('"k"', '["v","k"]')

    def test_the_result_of_a_selector_is_a_key_of_the_table(self) -> None:
        assert selector("def f(value): return value")({"b": 1, "a": 2}, None, "").key == '{"a":2,"b":1}'
        assert selector("def f(value): return b'k'", RAW)({}, None, "").key == "aw=="
        refused = selector("def f(value): return 'k'", RAW)({}, None, "").problem
        assert refused is not None
        assert "raw keys" in str(refused["detail"])

    @pytest.mark.parametrize("key", [0, "", False])
    def test_falsy_results_are_keys_but_none_is_not(self, key: Any) -> None:
        assert selector("def f(value): return value")(key, None, "").key == json.dumps(key)
        assert selector("def f(value): return None")(key, None, "") == (None, None)

    def test_a_failing_selector_gives_a_problem_and_no_look_up_key(self) -> None:
        failing, sound = read(
            reading(selector("def f(value): return value['id']")), record({}, key="a"), record({"id": 1}, key="b")
        )
        assert (failing["key"], failing["value"], failing["look_up"]) == ('"a"', "{}", None)
        assert not failing["unreadable"]
        assert failing["problem"]["reason"] == "extractor failed"
        assert "KeyError" in failing["problem"]["detail"]
        assert failing["problem"]["value"] == "{}"
        assert (sound["look_up"], sound["problem"]) == ("1", None)

    @pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
    def test_a_selector_that_exits_fails_its_value(self, error: str) -> None:
        exits = selector(f"def f(value): raise {error}")
        (row,) = read(reading(exits), record({}, key="a"))
        assert row["problem"]["reason"] == "extractor failed"
        assert exits.keys_of([{}], [None]) is None

    def test_a_result_that_is_no_key_is_a_problem(self) -> None:
        (row,) = read(reading(selector("def f(value): return object()")), record({}, key="a"))
        assert (row["look_up"], row["problem"]["reason"]) == (None, "key cannot be used")

    def test_a_selector_that_never_ends_is_stopped(self) -> None:
        endless = "def f(value):\n    while True:\n        pass"
        (row,) = read(reading(selector(endless, timeout=0.1)), record({}, key="a"))
        assert row["problem"]["reason"] == "extractor failed"

    def test_no_selector_is_called_for_a_record_without_a_value(self) -> None:
        (row,) = read(reading(selector("def f(value): return value['id']")), record(None, key="a"))
        assert (row["key"], row["value"], row["look_up"], row["problem"]) == ('"a"', None, None, None)

    def test_a_function_changes_nothing_but_its_own_copy(self) -> None:
        (row,) = read(reading(selector("def f(value): return value.pop('id')")), record({"id": 1}, key="a"))
        assert (row["value"], row["look_up"]) == ('{"id":1}', "1")


class TestPartitions:
    def test_without_repartition_a_record_keeps_its_partition(self) -> None:
        (row,) = read(reading(), record(1, key="a")._replace(partition=5))
        assert row["partition"] == 5

    def test_a_repartitioned_record_is_in_the_partition_of_its_key(self) -> None:
        (row,) = read(reading(partitions=4), record(1, key="a")._replace(partition=9))
        assert row["partition"] == zlib.crc32(b'"a"') % 4
        (row,) = read(reading(partitions=4, serializers=RAW), record(b"1")._replace(key=b"a"))
        assert row["partition"] == zlib.crc32(b"a") % 4

    def test_a_re_keyed_record_is_in_the_partition_of_the_selected_key(self) -> None:
        (row,) = read(reading(selector("def f(value): return value"), partitions=4), record("b", key="a"))
        assert row["partition"] == zlib.crc32(b'"b"') % 4

    def test_a_repartitioned_record_without_a_key_is_in_partition_0(self) -> None:
        (row,) = read(reading(partitions=4), record(1)._replace(partition=9))
        assert row["partition"] == 0
