from __future__ import annotations

import base64
import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from kaspr_delta.engine.streams.event import ChannelDecoder, InputRecord, JoinedValue, TopicDecoder, records_of
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.joined_text import JoinedText
from kaspr_delta.serde.table_text import TableText
from tests.unit.engine.agent.agents import JSON, record

TEXT, RAW = TableText(JSON), TableText(Serializers("raw", "raw"))
TEXTS = JoinedText(TEXT, TEXT, TEXT)


def pair(left: str | None, right: str | None) -> bytes:
    return json.dumps({"left": left, "right": right}).encode()


def test_a_channel_delivers_the_values_of_both_sides() -> None:
    key, value = ChannelDecoder(TEXTS)(record(pair('{"a":1}', '{"b":2}'), key="O1"))
    assert (key, value) == ("O1", {"left": {"a": 1}, "right": {"b": 2}})
    assert (value.left, value.right) == (value["left"], value["right"])
    assert ChannelDecoder(TEXTS)(record(pair("1", None))) == (None, {"left": 1, "right": None})
    assert ChannelDecoder(TEXTS)(record(0, key="O1")._replace(value=None)) == ("O1", None)


@pytest.mark.parametrize("key", [["eu", 1], {"b": [1]}, 1, "1"])
def test_keys_of_a_channel_look_like_those_of_a_topic(key: Any) -> None:
    given = record(pair("1", None), key=key)
    assert ChannelDecoder(TEXTS)(given)[0] == TopicDecoder(JSON)(given)[0] == key


def test_raw_tables_give_bytes() -> None:
    texts = [RAW.value(b"l"), RAW.value(b"r")]
    key, value = ChannelDecoder(JoinedText(RAW, RAW, RAW))(record(pair(*texts))._replace(key=RAW.key(b"k").encode()))
    assert (key, value) == (b"k", {"left": b"l", "right": b"r"})


def test_a_joined_value_is_an_ordinary_dictionary_to_json_and_pickle() -> None:
    value = JoinedValue(left={"a": 1}, right=None)
    assert json.loads(json.dumps(value)) == pickle.loads(pickle.dumps(value)) == value  # noqa: S301


def test_undecodable_records_are_refused() -> None:
    with pytest.raises(SerializationError):
        TopicDecoder(JSON)(record(b"{"))
    with pytest.raises(SerializationError):
        ChannelDecoder(TEXTS)(record(pair("{", None)))


def rows(records: list[InputRecord], headers: list[str | None]) -> pa.Table:
    columns = {name: [getattr(one, name) for one in records] for name in InputRecord._fields}
    return pa.table({**columns, "headers": pa.array(headers, pa.string())})


def test_headers_are_read_from_text() -> None:
    encoded = [{"key": "id", "value": base64.b64encode(b"\xff").decode()}, {"key": "none", "value": None}]
    records = [record(1, key="a"), record(2, key="b")]
    with_headers, without = records_of(rows(records, [json.dumps(encoded), None]))
    assert with_headers.headers == [{"key": "id", "value": b"\xff"}, {"key": "none", "value": None}]
    assert without == records[1]
