"""Retries of dead letters on this machine's disk: their records are put on their topics and channels again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from kaspr_delta.control.dead_letters import DeadLetters, Letter, Origin, Retried, by_resource
from kaspr_delta.control.events import NORMAL
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.serde import json_text
from kaspr_delta.spec.kinds import kind_called
from kaspr_delta.storage.layout import DEAD_LETTERS, EVENTS, RETRY_FOR, kind_for
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.native.sql_text import literal, moment_literal
from kaspr_delta.storage.native.system_tables import NativeSystemTables


@dataclass(frozen=True, slots=True)
class LocalDeadLetters(DeadLetters):
    """The dead letters of an application on this machine's disk."""

    delta: DeltaRs

    @classmethod
    def of(cls, delta: DeltaRs, plan: Plan) -> LocalDeadLetters:
        """The dead letters in the tables of a namespace."""
        return cls(NativePageReads(delta), plan, delta)

    def can_retry(self, letter: Letter) -> bool:
        """Whether the letter came from a topic or a channel."""
        return self.origin_of(letter) is not None

    def retry(self, letters: Iterable[Letter], asked_by: str | None = None, *, only_failed: bool = False) -> Retried:
        """Put the records of letters on their topics and channels again, unchanged, and remove the letters.

        With ``only_failed`` each record is for the resource that failed on it, and all other readers skip it. A retry
        is idempotent: the append carries the letter's id as its transaction, so repeated and concurrent calls append a
        letter's record once. After a crash before the letter is removed, call it again.
        """
        sent: dict[Origin, int] = {}
        lost: list[Letter] = []
        for origin, mine in self.by_origin(letters).items():
            found, sent[origin] = self._send(origin, mine, only_failed=only_failed)
            lost.extend(letter for letter in mine if letter not in found)
            if found:
                reader = " for this reader alone" if only_failed else ""
                who = f", as {asked_by} asked" if asked_by else ""
                self._note(found, f"put on {origin.kind} `{origin.name}` again{reader}{who}")
        return Retried({origin: count for origin, count in sent.items() if count}, tuple(lost))

    def _send(self, origin: Origin, letters: Iterable[Letter], *, only_failed: bool) -> tuple[list[Letter], int]:
        """Append the records of letters. Returns the letters that had one, and the number of new records."""
        records: dict[Letter, list[dict[str, Any]]] = {}

        def rows() -> dict[str, list[dict[str, Any]]]:
            records.update((letter, rows) for letter in letters if (rows := records_of(self.delta, origin, letter)))
            return {
                f"retry:{letter.id}": [
                    {**(handed_to(letter.resource, origin, row) if only_failed else row), "seq": seq}
                    for seq, row in enumerate(found)
                ]
                for letter, found in records.items()
            }

        sent = self.delta.append_once(origin.table, rows)
        return list(records), sent

    def _note(self, letters: Iterable[Letter], done: str) -> None:
        """Remove letters whose records were sent, and append an event for each resource."""
        self.delta.delete(DEAD_LETTERS, " OR ".join(f"({_is(letter)})" for letter in letters))
        now = datetime.now(timezone.utc)
        events = []
        for ref, count in by_resource(letters).items():
            message = f"{count} dead letter{'s' if count > 1 else ''} {done}"
            events.append((now, NORMAL, "DeadLetterRetried", kind_called(ref.kind), ref.name, message))
        NativeSystemTables(self.delta).append(EVENTS, events)


def _is(letter: Letter) -> str:
    """The SQL condition that holds only for the rows of a letter."""
    texts = {name: getattr(letter, name) for name in ("resource", "source", "key", "value", "reason", "detail")}
    tests = [f"{name} IS NULL" if text is None else f"{name} = {literal(text)}" for name, text in texts.items()]
    moments = {"timestamp": letter.timestamp, "at": letter.at}
    tests.extend(
        f'"{name}" IS NULL' if moment is None else f'"{name}" = {moment_literal(moment)}'
        for name, moment in moments.items()
    )
    return " AND ".join([*tests, f"batch = {letter.batch}"])


_RECORD = ("key", "value", "headers", "timestamp", "partition")
# A record that is put on a channel again belongs to no batch of the join, and the join's state ignores it.
_EMISSION = ("key", "kind", "left", "right", "timestamp")


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
