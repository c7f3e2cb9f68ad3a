"""The records of dead letters, read from their topics and channels."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde import json_text
from kaspr_delta.storage.layout import RETRY_FOR, kind_for
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.sql_text import literal, moment_literal

if TYPE_CHECKING:
    from kaspr_delta.control.dead_letters import Letter

_RECORD = ("key", "value", "headers", "timestamp", "partition")
# A record that is put on a channel again belongs to no batch of the join, and the join's state ignores it.
_EMISSION = ("key", "kind", "left", "right", "timestamp")


@dataclass(frozen=True, slots=True)
class Origin:
    """The topic or channel that a letter's record came from. ``table`` holds its records.

    ``is_state``: a channel whose join keeps a result, so that each record is the newest state of its key.
    """

    kind: Literal["topic", "channel"]
    name: str
    table: str
    is_state: bool = False


def records_of(delta: DeltaRs, origin: Origin, letter: Letter) -> list[dict[str, Any]]:
    """The record of a letter, once per copy, as columns of its origin's table. Empty if the record is gone."""
    return (_on_channel if origin.kind == "channel" else _on_topic)(delta, origin, letter)


def handed_to(reader: str, origin: Origin, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record, marked so that all readers of the origin except one skip it."""
    if origin.kind == "channel":
        return {**record, "kind": kind_for(record["kind"], reader)}
    return {**record, "headers": [*(record["headers"] or ()), {"key": RETRY_FOR, "value": reader.encode()}]}


def _on_topic(delta: DeltaRs, origin: Origin, letter: Letter) -> list[dict[str, Any]]:
    """The record of a letter from its topic, once per copy. Empty if it is gone.

    A letter holds only text; the topic has the bytes, the headers and the partition. The mark of an earlier retry for
    one reader is removed.
    """
    at = "timestamp IS NULL" if letter.timestamp is None else f"timestamp = {moment_literal(letter.timestamp)}"
    columns = ", ".join(f'"{name}"' for name in _RECORD)
    rows = delta.rows(origin.table, f"SELECT {columns} FROM t WHERE {at}")  # noqa: S608
    for row in rows:
        if letter.key in _spellings(row["key"]) and letter.value in _spellings(row["value"]):
            headers = [header for header in row["headers"] or () if header["key"] != RETRY_FOR]
            return [{**row, "headers": headers or None}] * letter.copies
    return []


def _on_channel(delta: DeltaRs, origin: Origin, letter: Letter) -> list[dict[str, Any]]:
    """The record of a letter from its channel, once per copy.

    Empty if the channel holds states and has a newer record of the key: the older state would become the last one.
    """
    columns = ", ".join(f'"{name}"' for name in _EMISSION)
    where = f"key = {literal(letter.key or '')} AND kind IN ('value', 'tombstone') AND checkpoint IS NOT NULL"
    order = "checkpoint DESC, batch DESC, seq DESC"
    rows = delta.rows(origin.table, f"SELECT {columns} FROM t WHERE {where} ORDER BY {order}")  # noqa: S608
    for row in rows[:1] if origin.is_state else rows:
        if _has_value(row, letter.value) and row["timestamp"] == letter.timestamp:
            return [row] * letter.copies
    return []


def _spellings(data: bytes | None) -> Iterator[str | None]:
    """The texts by which a letter may show bytes: UTF-8, base64 (raw bytes in joins) and canonical JSON text."""
    if data is None:
        yield None
        return
    yield data.decode("utf-8", "replace")
    yield base64.b64encode(data).decode()
    try:
        parsed = json_text.parse(data)
        yield json_text.value_text(parsed)
        yield json_text.canonical_key(parsed)
    except (SerializationError, UnicodeDecodeError):
        return


def _has_value(row: Mapping[str, Any], value: str | None) -> bool:
    """Whether a letter's value is that of a record. For typed tables only the kind is compared here, not the sides."""
    if value is None or row["kind"] != "value":
        return value is None and row["kind"] == "tombstone"
    if any(isinstance(row[side], dict) for side in ("left", "right")):
        return True
    pair = _parsed(value)
    return isinstance(pair, dict) and all(_is_side(row[side], pair.get(side)) for side in ("left", "right"))


def _is_side(text: str | None, shown: Any) -> bool:
    """Whether a letter shows this side of a pair: as JSON, or as text (bytes, and all sides in older letters)."""
    return bool(shown == text) or (text is not None and bool(shown == _parsed(text)))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
