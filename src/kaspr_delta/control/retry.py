"""Retries of dead letters: their records are put on their topics and channels again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import groupby
from typing import Any

from kaspr_delta.control.dead_letters import DeadLetters, Letter, Origin, Retried, by_resource
from kaspr_delta.control.events import NORMAL
from kaspr_delta.errors import SerializationError
from kaspr_delta.serde import json_text
from kaspr_delta.spec.ddl import quoted
from kaspr_delta.spec.kinds import event_kind
from kaspr_delta.storage.layout import DEAD_LETTERS, EVENTS, RECORDS, RETRY_FOR, kind_for
from kaspr_delta.storage.system_tables import RetryTables, RowsByName

# The letters whose records one statement looks up, and that one statement removes.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class RetryableDeadLetters(DeadLetters):
    """The dead letters of an application whose tables this process may write."""

    tables: RetryTables

    def can_retry(self, letter: Letter) -> bool:
        """Whether the letter came from a topic or a channel."""
        return self.origin_of(letter) is not None

    def retry(self, letters: Iterable[Letter], asked_by: str | None = None, *, only_failed: bool = False) -> Retried:
        """Put the records of letters on their topics and channels again, unchanged, and remove the letters.

        With ``only_failed`` each record is for the resource that failed on it, and all other readers skip it. A retry
        is idempotent: the append carries the letter's id as its transaction, so repeated and concurrent calls append a
        letter's record once. After a crash before the letter is removed, call it again.

        With Spark the letters of one failed batch are one transaction: of two calls at the same time they must be the
        same ones, as they are for all letters and for all of a resource.
        """
        sent: dict[Origin, int] = {}
        lost: list[Letter] = []
        for origin, mine in self.by_origin(letters).items():
            done: list[Letter] = []
            for some in _chunks(sorted(mine, key=_failed_together)):
                found, count = self._send(origin, some, only_failed=only_failed)
                if found:
                    self.tables.delete(DEAD_LETTERS, self._are(found))
                    done.extend(found)
                sent[origin] = sent.get(origin, 0) + count
                lost.extend(letter for letter in some if letter not in found)
            if done:
                reader = " for this reader alone" if only_failed else ""
                who = f", as {asked_by} asked" if asked_by else ""
                self._tell(done, f"put on {origin.kind} `{origin.name}` again{reader}{who}")
        return Retried({origin: count for origin, count in sent.items() if count}, tuple(lost))

    def _send(
        self, origin: Origin, letters: Sequence[Letter], *, only_failed: bool
    ) -> tuple[Mapping[Letter, object], int]:
        """Append the records of letters. Returns the letters that had one, and the number of new records."""
        found: dict[Letter, list[dict[str, Any]]] = {}
        sent = 0
        for part in [letters] if self.tables.many_transactions else _failed_batches(letters):

            def rows(part: Sequence[Letter] = part) -> RowsByName:
                there = records_of(self.tables, origin, part)
                found.update(there)
                return {
                    f"retry:{letter.id}": [
                        {**(handed_to(letter.resource, origin, row) if only_failed else row), "seq": seq}
                        for seq, row in enumerate(there.get(letter, ()))
                    ]
                    for letter in part
                }

            sent += self.tables.append_once(origin.table, rows)
        return found, sent

    def _tell(self, letters: Iterable[Letter], done: str) -> None:
        """Append an event for each resource whose records were sent."""
        now = datetime.now(timezone.utc)
        events = []
        for ref, count in by_resource(letters).items():
            message = f"{count} dead letter{'s' if count > 1 else ''} {done}"
            events.append((now, NORMAL, "DeadLetterRetried", event_kind(ref.kind), ref.name, message))
        self.tables.append(EVENTS, events)

    def _are(self, letters: Iterable[Letter]) -> str:
        """The SQL condition that holds only for the rows of letters."""
        return " OR ".join(f"({self._is(letter)})" for letter in letters)

    def _is(self, letter: Letter) -> str:
        columns = ("resource", "source", "key", "value", "reason", "detail", "timestamp", "at", "batch")
        values = {quoted(name): getattr(letter, name) for name in columns}
        return " AND ".join(
            f"{name} IS NULL" if value is None else f"{name} = {self.tables.value(value)}"
            for name, value in values.items()
        )


def _failed_together(letter: Letter) -> tuple[datetime, str, int, str]:
    """An order of letters, the oldest first, in which those of one failed batch follow one another."""
    return letter.at, letter.resource, letter.batch, letter.id


def _failed_batches(letters: Sequence[Letter]) -> list[list[Letter]]:
    return [list(some) for _, some in groupby(letters, lambda letter: _failed_together(letter)[:-1])]


def _chunks(letters: Sequence[Letter]) -> Iterator[Sequence[Letter]]:
    return (letters[first : first + _AT_ONCE] for first in range(0, len(letters), _AT_ONCE))


_RECORD = ("key", "value", "headers", "timestamp", "partition")
# A record that is put on a channel again belongs to no batch of the join, and the join's state ignores it.
_EMISSION = ("key", "kind", "left", "right", "timestamp")
_ORDER = ("checkpoint", "batch", "seq")


def records_of(tables: RetryTables, origin: Origin, letters: Sequence[Letter]) -> dict[Letter, list[dict[str, Any]]]:
    """The record of each letter, once per copy, as columns of its origin's table. Letters without one are left out."""
    found = (_on_channel if origin.kind == "channel" else _on_topic)(tables, origin, letters)
    return {letter: rows for letter, rows in found if rows}


def handed_to(reader: str, origin: Origin, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record, marked so that all readers of the origin except one skip it."""
    if origin.kind == "channel":
        return {**record, "kind": kind_for(record["kind"], reader)}
    return {**record, "headers": [*(record["headers"] or ()), {"key": RETRY_FOR, "value": reader.encode()}]}


def _on_topic(
    tables: RetryTables, origin: Origin, letters: Sequence[Letter]
) -> Iterator[tuple[Letter, list[dict[str, Any]]]]:
    """The records of letters from their topic, each once per copy. None of one that is gone.

    A letter holds only text; the topic has the bytes, the headers and the partition. The mark of an earlier retry for
    one reader is removed.
    """
    moments = {letter.timestamp for letter in letters}
    listed = ", ".join(tables.value(moment) for moment in moments if moment is not None)
    at = [*([f"timestamp IN ({listed})"] if listed else []), *(["timestamp IS NULL"] if None in moments else [])]
    rows = tables.having(origin.table, _RECORD, " OR ".join(at))
    by_moment: dict[datetime | None, list[dict[str, Any]]] = {moment: [] for moment in moments}
    for row in rows:
        by_moment[row["timestamp"]].append(row)
    for letter in letters:
        for row in by_moment[letter.timestamp]:
            if letter.key in _spellings(row["key"]) and letter.value in _spellings(row["value"]):
                headers = [header for header in row["headers"] or () if header["key"] != RETRY_FOR]
                yield letter, [{**row, "headers": headers or None}] * letter.copies
                break


def _on_channel(
    tables: RetryTables, origin: Origin, letters: Sequence[Letter]
) -> Iterator[tuple[Letter, list[dict[str, Any]]]]:
    """The records of letters from their channel, each once per copy.

    None if the channel holds states and has a newer record of the key: the older state would become the last one.
    """
    keys = tables.value(tuple({letter.key or "" for letter in letters}))
    where = f"key IN {keys} AND kind IN {tables.value(RECORDS)} AND checkpoint IS NOT NULL"
    newest = sorted(
        tables.having(origin.table, (*_EMISSION, *_ORDER), where),
        key=lambda row: tuple(row[name] for name in _ORDER),
        reverse=True,
    )
    emissions = [{name: row[name] for name in _EMISSION} for row in newest]
    for letter in letters:
        rows = [row for row in emissions if row["key"] == (letter.key or "")]
        for row in rows[:1] if origin.is_state else rows:
            if _has_value(row, letter.value) and row["timestamp"] == letter.timestamp:
                yield letter, [row] * letter.copies
                break


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
