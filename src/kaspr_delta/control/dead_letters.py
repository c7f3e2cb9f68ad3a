"""Dead letters: where their records came from, and which other resources read them there. In a folder without Spark."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from kaspr_delta.control.rebuilds import Query
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import AggregationPlan, StreamPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import AgentPlan, ChannelInput, ResourceRef, TaskPlan, TopicInput, TopicPlan
from kaspr_delta.plan.names import topic_table
from kaspr_delta.spec.patterns import matching
from kaspr_delta.storage.layout import DEAD_LETTERS
from kaspr_delta.storage.system_tables import SystemTables
from kaspr_delta.storage.warehouse.reads import MOST_ROWS

MOST_RETRIED = 10_000
"""The number of letters that one command, or one form, retries."""
_ELSEWHERE = "Pages over a catalog retry nothing: kaspr-delta dead-letters --retry --target TARGET does."


@dataclass(frozen=True, slots=True)
class Origin:
    """The topic or channel that a letter's record came from. ``table`` holds its records.

    ``is_state``: a channel whose join keeps a result, so that each record is the newest state of its key.
    """

    kind: Literal["topic", "channel"]
    name: str
    table: str
    is_state: bool = False


@dataclass(frozen=True, slots=True)
class Letter:
    """A row of the dead letters. ``copies`` is the number of identical rows."""

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
        """A hash of all columns, equal for identical rows only."""
        where = (self.resource, self.source, self.key, self.value)
        why = (self.reason, self.detail, self.timestamp, self.batch, self.at)
        text = json.dumps([*where, *why], default=lambda moment: moment.isoformat())
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def ref(self) -> ResourceRef:
        """The resource that could not process the record."""
        return ResourceRef.of(self.resource)


@dataclass(frozen=True, slots=True)
class Retried:
    """The result of a retry: the number of records sent again by origin, and the letters whose records are gone."""

    records: Mapping[Origin, int]
    lost: tuple[Letter, ...]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The current dead letters of an application. Only RetryableDeadLetters can retry them."""

    tables: SystemTables
    plan: Plan

    def newest(self, most: int, resource: str | None = None, letter: str | None = None) -> list[Letter]:
        """The newest letters of one resource or of all. ``letter``, an id, restricts them to that one."""
        where = {} if resource is None else {"resource": resource}
        rows = self.tables.newest(DEAD_LETTERS, ("at",), most if letter is None else None, where)
        counted = Counter(Letter(**row) for row in rows)
        found = (replace(one, copies=copies) for one, copies in counted.items())
        return [one for one in found if letter in {None, one.id}]

    def can_retry(self, letter: Letter) -> bool:  # noqa: ARG002
        """Whether ``retry`` can put the letter's record on its topic or channel again."""
        return False

    def retry(self, letters: Iterable[Letter], asked_by: str | None = None, *, only_failed: bool = False) -> Retried:  # noqa: ARG002
        """Put the records of letters on their topics and channels again. Raises PermissionError over a catalog."""
        raise PermissionError(_ELSEWHERE)

    def origin_of(self, letter: Letter) -> Origin | None:
        """The topic or channel that the letter's record came from; None for another source, see ``why_not``."""
        name = letter.source or ""
        for read in _inputs(self.plan, letter.ref):
            join = self.plan.channel(name)
            if _reads_channel(read, name) and join is not None:
                return Origin("channel", name, join.log, isinstance(join, TableTableJoinPlan))
            if _reads_topic(read, name) and self.plan.changelog(name) is None:
                return Origin("topic", name, topic_table(name))
        return None

    def why_not(self, letter: Letter) -> str:
        """The reason why a letter cannot be retried alone, or not here, and the alternative."""
        ref = letter.ref
        if self.origin_of(letter) is not None:
            return _ELSEWHERE
        if ref.kind == "task":
            return "A task runs again when it is due."
        if ref.kind == "topic":
            return "It never became a record: put it right where it came from."
        again = "" if ref.kind == "agent" else f", and so are all rows by kaspr-delta rebuild {ref}"
        return f"It is a row of a table: it is tried again when it changes{again}."

    def seen_twice(self, letters: Iterable[Letter]) -> list[str]:
        """Sentences, without full stops, that name the other readers that would get the records a second time."""
        sentences = []
        for origin, mine in self.by_origin(letters).items():
            for ref, count in by_resource(mine).items():
                others = self.other_readers(next(letter for letter in mine if letter.ref == ref))
                records = "1 record" if count == 1 else f"{count:,} records"
                if others:
                    again = f"which would get {records} of {ref} a second time"
                    sentences.append(f"{origin.kind} {origin.name} is also read by {', '.join(others)}, {again}")
        return sentences

    def by_origin(self, letters: Iterable[Letter]) -> dict[Origin, list[Letter]]:
        """The letters whose records came from a topic or channel, by origin."""
        by_origin: dict[Origin, list[Letter]] = {}
        for letter in letters:
            origin = self.origin_of(letter)
            if origin is not None:
                by_origin.setdefault(origin, []).append(letter)
        return by_origin

    def other_readers(self, letter: Letter) -> list[str]:
        """The other resources, and the export, that read the topic or channel of a letter."""
        origin = self.origin_of(letter)
        if origin is None:
            return []
        reads = _reads_channel if origin.kind == "channel" else _reads_topic
        refs = (ref for ref in self.plan.runs if any(reads(read, origin.name) for read in _inputs(self.plan, ref)))
        topic = self.plan.topic(origin.name) if origin.kind == "topic" else None
        written = topic.binding if topic is not None else None
        exports = [f"the export {written.text}"] if written is not None and written.direction == "output" else []
        return [*sorted({*map(str, refs)} - {letter.resource}), *exports]


def _inputs(plan: Plan, ref: ResourceRef) -> Iterator[TopicInput | ChannelInput]:
    """The topics and channels that a resource reads record by record."""
    sides: tuple[StreamPlan | str, ...] = ()
    match plan.running(ref):
        case AgentPlan(input=read):
            yield read
        case AggregationPlan(origin=origin):
            sides = (origin,)
        case TaskPlan() | TopicPlan() | None:
            pass
        case join:
            sides = (join.left, join.right)
    for side in sides:
        if isinstance(side, StreamPlan):
            yield side.input


def _reads_channel(read: TopicInput | ChannelInput, name: str) -> bool:
    return isinstance(read, ChannelInput) and read.channel == name


def _reads_topic(read: TopicInput | ChannelInput, name: str) -> bool:
    if not isinstance(read, TopicInput):
        return False
    return name in read.topics if read.pattern is None else bool(matching(read.pattern, [name]))


def by_resource(letters: Iterable[Letter]) -> Counter[ResourceRef]:
    """The number of letters of each resource."""
    counts: Counter[ResourceRef] = Counter()
    for letter in letters:
        counts[letter.ref] += letter.copies
    return counts


def letters_in(query: Query) -> dict[tuple[str, str], int]:
    """The number of dead letters by resource (``kind/name``) and source."""
    counted = f"SELECT resource, source, count(*) AS letters FROM t GROUP BY resource, source LIMIT {MOST_ROWS}"  # noqa: S608
    rows = query(DEAD_LETTERS, counted)
    return {(row["resource"] or "", row["source"] or ""): int(row["letters"]) for row in rows}


def summed_by_resource(letters: Mapping[tuple[str, str], int]) -> Counter[str]:
    """The numbers of dead letters by ``kind/name``, summed over the sources."""
    counts: Counter[str] = Counter()
    for (resource, _), count in letters.items():
        counts[resource] += count
    return counts
