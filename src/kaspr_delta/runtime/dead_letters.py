"""Dead letters of this machine's warehouses, without Spark: which there are, and their records put on topics again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import ChannelInput, ResourceRef, TopicInput
from kaspr_delta.plan.join_plans import StreamPlan
from kaspr_delta.plan.names import topic_table
from kaspr_delta.runtime.events import NORMAL, Event
from kaspr_delta.serde import json_text
from kaspr_delta.spec.kinds import kind_called
from kaspr_delta.storage.delta_rs import DeltaRs, arrow_schema, literal, moment_literal
from kaspr_delta.storage.layout import DEAD_LETTERS, EVENTS, TOPIC
from kaspr_delta.storage.system_tables import LocalSystemTables

_RECORD = ("key", "value", "headers", "timestamp", "partition")


@dataclass(frozen=True, slots=True)
class Letter:
    """A row of the dead letters. ``copies``: so many rows are equal in everything."""

    resource: str
    source: str | None
    key: str | None
    value: str | None
    reason: str | None
    detail: str | None
    timestamp: datetime | None
    batch: int
    at: datetime
    copies: int = 1

    @property
    def id(self) -> str:
        """What tells it from other letters."""
        told = (self.resource, self.source, self.key, self.value, self.reason, self.detail, self.timestamp, self.batch)
        text = json.dumps([*told, self.at], default=lambda moment: moment.isoformat())
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def ref(self) -> ResourceRef:
        """What could not process it."""
        kind, _, name = self.resource.partition("/")
        return ResourceRef(kind, name)


@dataclass(frozen=True, slots=True)
class Retried:
    """What became of letters: how many records are on their topics again, and the letters whose records are gone."""

    records: Mapping[str, int]
    lost: tuple[Letter, ...]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of an application, as they are by now."""

    delta: DeltaRs
    plan: Plan

    def newest(self, most: int, resource: str | None = None, letter: str | None = None) -> list[Letter]:
        """The newest letters, of one resource or of all; with a ``letter``, an id, at most that one."""
        where = "" if resource is None else f" WHERE resource = {literal(resource)}"
        limit = f" LIMIT {most}" if letter is None else ""
        rows = self.delta.rows(DEAD_LETTERS, f"SELECT * FROM t{where} ORDER BY at DESC{limit}")  # noqa: S608
        counted: dict[Letter, int] = {}
        for one in (Letter(**row) for row in rows):
            counted[one] = counted.get(one, 0) + 1
        found = (replace(one, copies=copies) for one, copies in counted.items())
        return [one for one in found if letter in {None, one.id}]

    def counts(self) -> dict[tuple[str, str], int]:
        """How many there are, by resource (``kind/name``) and source."""
        grouped = "SELECT resource, source, count(*) AS letters FROM t GROUP BY resource, source"
        return {
            (row["resource"], row["source"] or ""): row["letters"] for row in self.delta.rows(DEAD_LETTERS, grouped)
        }

    def topic_of(self, letter: Letter) -> str | None:
        """The topic that the letter's record came from; None if it came from elsewhere (see ``why_not``)."""
        inputs = list(_inputs(self.plan, letter.ref))
        for read in inputs:
            named = isinstance(read, TopicInput) and (read.pattern is not None or letter.source in read.topics)
            if named and letter.source and self.plan.changelog(letter.source) is None:
                return letter.source
        return None

    def why_not(self, letter: Letter) -> str:
        """Why a letter that came from no topic cannot be retried by itself, and what to do instead."""
        ref = letter.ref
        if ref.kind == "task":
            return "A task runs again when it is due."
        if ref.kind == "topic":
            return "It never became a record: put it right where it came from."
        if letter.source and self.plan.channel(letter.source) is not None:
            return (
                "It came from a channel, which only its join writes: when the joined rows change, a new record comes."
            )
        again = "" if ref.kind == "agent" else f", and so are all rows by kaspr-delta rebuild {ref}"
        return f"It is a row of a table: it is tried again when it changes{again}."

    def readers(self, letter: Letter) -> list[str]:
        """Who else reads the topic of a letter, and would see its record again."""
        label = f"topic/{self.topic_of(letter)}"
        return sorted({edge.target for edge in self.plan.edges if edge.source == label} - {letter.resource})

    def retry(self, letters: Iterable[Letter], asked_by: str | None = None) -> Retried:
        """Put the records of letters that came from topics on these again, as they were, and remove the letters.

        A letter's record is put on its topic once, however often and by how many this is asked: the append carries the
        letter's id as its transaction. Who dies before the letter is removed can ask again.
        """
        by_topic: dict[str, list[Letter]] = {}
        for letter in letters:
            topic = self.topic_of(letter)
            if topic is not None:
                by_topic.setdefault(topic, []).append(letter)
        sent: dict[str, int] = {}
        lost: list[Letter] = []
        for topic, mine in by_topic.items():
            records = {letter: self._records(topic, letter) for letter in mine}
            lost.extend(letter for letter, found in records.items() if not found)
            there = {letter: found for letter, found in records.items() if found}
            if there:
                sent[topic] = self._send(topic, there, asked_by)
        return Retried(sent, tuple(lost))

    def _send(self, topic: str, records: Mapping[Letter, list[dict[str, Any]]], asked_by: str | None) -> int:
        schema = arrow_schema(TOPIC.columns)
        once = {
            f"retry:{letter.id}": pa.Table.from_pylist([{**row, "seq": seq} for seq, row in enumerate(rows)], schema)
            for letter, rows in records.items()
        }
        sent = self.delta.append_once(topic_table(topic), once)
        self.delta.delete(DEAD_LETTERS, " OR ".join(f"({_is(letter)})" for letter in records))
        now = datetime.now(timezone.utc)
        events = [
            Event(now, NORMAL, "DeadLetterRetried", kind_called(ref.kind), ref.name, _told(count, topic, asked_by))
            for ref, count in _by_resource(records).items()
        ]
        system = LocalSystemTables(self.delta)
        system.append(EVENTS, [(e.at, e.type, e.reason, e.kind, e.name, e.message) for e in events])
        return sent

    def _records(self, topic: str, letter: Letter) -> list[dict[str, Any]]:
        """The record of a letter as it is on its topic, once for each copy; none where it is gone.

        A letter holds text for people; the topic has the bytes, the headers and the partition.
        """
        at = "timestamp IS NULL" if letter.timestamp is None else f"timestamp = {moment_literal(letter.timestamp)}"
        columns = ", ".join(f'"{name}"' for name in _RECORD)
        rows = self.delta.rows(topic_table(topic), f"SELECT {columns} FROM t WHERE {at}")  # noqa: S608
        for row in rows:
            if letter.key in _spellings(row["key"]) and letter.value in _spellings(row["value"]):
                return [row] * letter.copies
        return []


def _inputs(plan: Plan, ref: ResourceRef) -> Iterator[TopicInput | ChannelInput]:
    """The topics and channels that a resource reads record by record."""
    agent = plan.agent(ref.name) if ref.kind == "agent" else None
    join = plan.join(ref.name) if ref.kind == "join" else None
    made = plan.aggregation(ref.name) if ref.kind == "table" else None
    if agent is not None:
        yield agent.input
    sides = (join.left, join.right) if join is not None else ()
    for side in (*sides, *(() if made is None else (made.origin,))):
        if isinstance(side, StreamPlan):
            yield side.input


def _spellings(data: bytes | None) -> Iterator[str | None]:
    """How a letter may show bytes: as they are, as canonical JSON text, or, raw ones of joins, as base64."""
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


def _is(letter: Letter) -> str:
    """What holds for a letter's rows alone."""
    texts = {name: getattr(letter, name) for name in ("resource", "source", "key", "value", "reason", "detail")}
    tests = [f"{name} IS NULL" if text is None else f"{name} = {literal(text)}" for name, text in texts.items()]
    moments = {"timestamp": letter.timestamp, "at": letter.at}
    tests.extend(
        f'"{name}" IS NULL' if moment is None else f'"{name}" = {moment_literal(moment)}'
        for name, moment in moments.items()
    )
    return " AND ".join([*tests, f"batch = {letter.batch}"])


def _by_resource(records: Mapping[Letter, list[dict[str, Any]]]) -> dict[ResourceRef, int]:
    counts: dict[ResourceRef, int] = {}
    for letter, rows in records.items():
        counts[letter.ref] = counts.get(letter.ref, 0) + len(rows)
    return counts


def _told(count: int, topic: str, asked_by: str | None) -> str:
    who = f", as {asked_by} asked" if asked_by else ""
    return f"{count} dead letter{'s' if count > 1 else ''} put on topic `{topic}` again{who}"
