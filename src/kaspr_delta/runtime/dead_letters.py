"""Dead letters of this machine's warehouses, without Spark: which there are, and their records sent once more."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from kaspr_delta.plan.application_plan import Plan
from kaspr_delta.plan.definition import ChannelInput, ResourceRef, TopicInput
from kaspr_delta.plan.join_plans import StreamPlan, TableTableJoinPlan
from kaspr_delta.plan.names import topic_table
from kaspr_delta.runtime.events import NORMAL, Event
from kaspr_delta.runtime.letter_records import Origin, handed_to, records_of
from kaspr_delta.spec.kinds import kind_called
from kaspr_delta.storage.delta_rs import DeltaRs, literal, moment_literal
from kaspr_delta.storage.layout import DEAD_LETTERS, EVENTS
from kaspr_delta.storage.system_tables import LocalSystemTables


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
        return ResourceRef.of(self.resource)


@dataclass(frozen=True, slots=True)
class Retried:
    """What became of letters: how many records were put where again, and the letters whose records are not there."""

    records: Mapping[Origin, int]
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

    def origin_of(self, letter: Letter) -> Origin | None:
        """Where the letter's record came from, if that is a topic or a channel; else ``why_not`` tells more."""
        name = letter.source or ""
        for read in _inputs(self.plan, letter.ref):
            join = self.plan.channel(name)
            if _reads_channel(read, name) and join is not None:
                return Origin("channel", name, join.log, isinstance(join, TableTableJoinPlan))
            if _reads_topic(read, name) and self.plan.changelog(name) is None:
                return Origin("topic", name, topic_table(name))
        return None

    def why_not(self, letter: Letter) -> str:
        """Why a letter that came from no topic or channel cannot be retried by itself, and what to do instead."""
        ref = letter.ref
        if ref.kind == "task":
            return "A task runs again when it is due."
        if ref.kind == "topic":
            return "It never became a record: put it right where it came from."
        again = "" if ref.kind == "agent" else f", and so are all rows by kaspr-delta rebuild {ref}"
        return f"It is a row of a table: it is tried again when it changes{again}."

    def seen_twice(self, letters: Iterable[Letter]) -> list[str]:
        """Which other readers would get records of letters a second time, in sentences without their full stop."""
        sentences = []
        for origin, mine in self._by_origin(letters).items():
            for ref, count in _by_resource(mine).items():
                others = self.other_readers(next(letter for letter in mine if letter.ref == ref))
                records = "1 record" if count == 1 else f"{count:,} records"
                if others:
                    again = f"which would get {records} of {ref} a second time"
                    sentences.append(f"{origin.kind} {origin.name} is also read by {', '.join(others)}, {again}")
        return sentences

    def other_readers(self, letter: Letter) -> list[str]:
        """Which other resources, and which export, read the topic or channel of a letter."""
        origin = self.origin_of(letter)
        if origin is None:
            return []
        reads = _reads_channel if origin.kind == "channel" else _reads_topic
        refs = (ref for ref in self.plan.runs if any(reads(read, origin.name) for read in _inputs(self.plan, ref)))
        topic = self.plan.topic(origin.name) if origin.kind == "topic" else None
        written = topic.binding if topic is not None else None
        exports = [f"the export {written.text}"] if written is not None and written.direction == "output" else []
        return [*sorted({*map(str, refs)} - {letter.resource}), *exports]

    def retry(self, letters: Iterable[Letter], asked_by: str | None = None, *, only_failed: bool = False) -> Retried:
        """Put the records of letters on their topics and channels again, as they were, and remove the letters.

        With ``only_failed`` each record is for the resource that failed on it, and all other readers skip it. A
        letter's record is put there once, however often and by how many this is asked: the append carries the letter's
        id as its transaction. Who dies before the letter is removed can ask again.
        """
        sent: dict[Origin, int] = {}
        lost: list[Letter] = []
        for origin, mine in self._by_origin(letters).items():
            found, sent[origin] = self._send(origin, mine, only_failed=only_failed)
            lost.extend(letter for letter in mine if letter not in found)
            if found:
                self._note(found, _told(origin, asked_by, only_failed=only_failed))
        return Retried({origin: count for origin, count in sent.items() if count}, tuple(lost))

    def _by_origin(self, letters: Iterable[Letter]) -> dict[Origin, list[Letter]]:
        by_origin: dict[Origin, list[Letter]] = {}
        for letter in letters:
            origin = self.origin_of(letter)
            if origin is not None:
                by_origin.setdefault(origin, []).append(letter)
        return by_origin

    def _send(self, origin: Origin, letters: Iterable[Letter], *, only_failed: bool) -> tuple[list[Letter], int]:
        """Append the records of letters; the letters that had one, and how many records were new."""
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

    def _note(self, letters: Iterable[Letter], told: str) -> None:
        """Remove letters whose records were sent, and tell of it by events."""
        self.delta.delete(DEAD_LETTERS, " OR ".join(f"({_is(letter)})" for letter in letters))
        now = datetime.now(timezone.utc)
        events = [
            Event(now, NORMAL, "DeadLetterRetried", kind_called(ref.kind), ref.name, f"{_counted(count)} {told}")
            for ref, count in _by_resource(letters).items()
        ]
        system = LocalSystemTables(self.delta)
        system.append(EVENTS, [(e.at, e.type, e.reason, e.kind, e.name, e.message) for e in events])


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


def _reads_channel(read: TopicInput | ChannelInput, name: str) -> bool:
    return isinstance(read, ChannelInput) and read.channel == name


def _reads_topic(read: TopicInput | ChannelInput, name: str) -> bool:
    if not isinstance(read, TopicInput):
        return False
    return name in read.topics if read.pattern is None else re.fullmatch(read.pattern, name) is not None


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


def _by_resource(letters: Iterable[Letter]) -> dict[ResourceRef, int]:
    counts: dict[ResourceRef, int] = {}
    for letter in letters:
        counts[letter.ref] = counts.get(letter.ref, 0) + letter.copies
    return counts


def _counted(count: int) -> str:
    return f"{count} dead letter{'s' if count > 1 else ''}"


def _told(origin: Origin, asked_by: str | None, *, only_failed: bool) -> str:
    reader = " for this reader alone" if only_failed else ""
    who = f", as {asked_by} asked" if asked_by else ""
    return f"put on {origin.kind} `{origin.name}` again{reader}{who}"
