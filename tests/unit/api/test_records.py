from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.api.records import milliseconds, to_effect, to_record
from kaspr_delta.engine.streams.effect import Effect, to_arrow
from kaspr_delta.engine.streams.output import Topics
from kaspr_delta.errors import SerializationError, UsageError
from kaspr_delta.plan.definition.resources import Serializers
from kaspr_delta.serde.instants import moment_of

JSON, RAW = Serializers("json", "json"), Serializers("raw", "raw")
TOPICS = Topics({"t": 4}, 4)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def effect(record: dict[str, Any], serializers: Serializers = JSON) -> Effect:
    return to_effect(record, "t", serializers, TOPICS)


def row(given: Effect) -> dict[str, Any]:
    """The record as a row of its topic, at offset 17."""
    (read,) = to_arrow([given]).to_pylist()
    return {**read, "offset": 17}


@given(
    st.fixed_dictionaries(
        {
            "key": TEXT | st.integers() | st.none(),
            "value": st.dictionaries(TEXT, st.integers() | TEXT) | st.none(),
            "timestamp": st.integers(-62_135_596_800_000, 253_402_300_799_999),
            "headers": st.dictionaries(TEXT, TEXT),
            "partition": st.integers(0, 2**31 - 1),
        }
    )
)
def test_a_record_is_read_back_unchanged(record: dict[str, Any]) -> None:
    assert to_record(row(effect(record)), JSON) == {**record, "offset": 17}


def test_a_record_needs_only_a_value() -> None:
    before = datetime.now(timezone.utc)
    given = effect({"value": 1})
    assert (given.key, given.value, given.headers, given.partition) == (None, b"1", None, 0)
    assert effect({"value": None}).value is None
    assert given.timestamp is not None
    # Whole milliseconds, as on a Kafka topic.
    assert before - timedelta(milliseconds=1) < moment_of(given.timestamp) <= datetime.now(timezone.utc)
    assert given.timestamp % 1_000 == 0


@pytest.mark.parametrize(("given", "stored"), [(1.5, 1_000), (2.0, 2_000), (-0.5, -1_000)])
def test_a_timestamp_is_rounded_down_to_whole_milliseconds(given: float, stored: int) -> None:
    assert effect({"value": 1, "timestamp": given}).timestamp == stored


def test_without_a_partition_the_key_decides() -> None:
    first, second = effect({"key": "a", "value": 1}), effect({"key": "a", "value": 2})
    assert first.partition == second.partition == TOPICS.partition("t", b'"a"')


def test_records_are_written_and_read_with_the_topics_serializers() -> None:
    given = effect({"key": "k", "value": b"\xff"}, RAW)
    assert (given.key, given.value) == (b"k", b"\xff")
    assert to_record(row(given), RAW)["value"] == b"\xff"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"key": "a"}, "no field 'value'"),
        ({"value": 1, "vlaue": 2}, "unknown field 'vlaue'"),
        ({"value": 1, 5: 2, "x": 3}, "unknown field '5'"),
        ({"value": 1, "timestamp": "now"}, "milliseconds since 1970, not 'now'"),
        ({"value": 1, "timestamp": True}, "milliseconds since 1970, not True"),
        ({"value": 1, "timestamp": 10**18}, "not between the years 1 and 9999"),
        ({"value": 1, "timestamp": -(10**18)}, "not between the years 1 and 9999"),
        ({"value": 1, "timestamp": float("nan")}, "not between the years 1 and 9999"),
        ({"value": 1, "partition": "1"}, "whole number from 0 on, not '1'"),
        ({"value": 1, "partition": -1}, "whole number from 0 on, not -1"),
        ({"value": 1, "partition": 2**31}, "whole number from 0 on"),
        ({"value": 1, "partition": True}, "whole number from 0 on"),
        ({"value": 1, "headers": ["a"]}, "headers are an object"),
        ({"value": 1, "headers": {"\ud800": "x"}}, "headers: "),
        ({"value": 1, "headers": {"x": "\ud800"}}, "headers: "),
    ],
)
def test_a_malformed_record_is_refused_with_the_reason(record: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=r"^record ") as error:
        effect(record)
    assert message in str(error.value)


@pytest.mark.parametrize("record", [{"value": float("nan")}, {"value": "\ud800"}, {"key": object(), "value": 1}])
def test_keys_and_values_that_cannot_be_serialized_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(SerializationError):
        effect(record)


def test_a_value_that_cannot_be_read_is_shown_as_text_with_an_error_and_a_missing_header_as_none() -> None:
    read = to_record(row(effect({"key": '"k"', "value": b"\xff{"}, RAW)), JSON)
    assert (read["key"], read["value"]) == ("k", "\ufffd{")
    assert read["error"].startswith("value: not JSON")
    without_value = to_record(row(effect({"value": 1, "headers": {"a": None, "b": 2}})), JSON)
    assert without_value["headers"] == {"a": None, "b": "2"}


NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (None, None),
        (datetime(1970, 1, 1, 0, 0, 1, 2_999, tzinfo=timezone.utc), 1002),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc), -1000),
        (NOON.astimezone().replace(tzinfo=None), milliseconds(NOON)),  # local time, as Spark gives it
    ],
)
def test_timestamps_are_milliseconds_as_kafka_writes_them(moment: datetime | None, expected: int | None) -> None:
    assert milliseconds(moment) == expected
