"""A fake application that emits what was recorded, to test how events are fed to it and how its results are read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any, NamedTuple

from kaspr_delta.api.table import Windowed
from kaspr_delta.engine.rows.sequence import end_of
from kaspr_delta.storage.tables import Upsert
from tests.oracle.case import Case, Emission
from tests.oracle.case import text as text_of
from tests.oracle.families import family_of
from tests.oracle.family import Lane, lanes
from tests.oracle.outputs import JoinOutput
from tests.oracle.typed import ROWS, recorded
from tests.oracle.wrapping import SIDES, owner, wrapped

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Spoil = Callable[[Emission], Sequence[Emission]]


class Emitted(NamedTuple):
    version: int
    number: int
    emission: Emission

    @property
    def place(self) -> tuple[int, str]:
        return self.number, self.emission.key


def unchanged(emission: Emission) -> Sequence[Emission]:
    return [emission]


@dataclass
class Echo:
    """Replaces the application of a laboratory. ``spoil`` may change the emissions."""

    cases: Sequence[Case]
    spoil: Spoil = unchanged
    runs: list[set[str]] = field(default_factory=list)
    most_at_once: int = 0
    lanes: Mapping[str, Lane] = field(init=False)
    # The events of each lane that were put in and not run yet: number of the case, index of the event.
    waiting: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    # The index of each case's next event, by number of the case.
    next: Counter[int] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    emitted: dict[str, list[Emitted]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lanes = {lane.name: lane for lane in lanes(self.cases, [family_of(case) for case in self.cases])}
        self.spark = SimpleNamespace(createDataFrame=lambda rows, _: SimpleNamespace(coalesce=lambda _: rows))
        self.delta = SimpleNamespace(merge=self.merge, newest=lambda _, log: self.newest(log))
        self.plan = SimpleNamespace(join=lambda name: SimpleNamespace(log=name))

    # -- input --------------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Any:
        def produce(records: Sequence[Mapping[str, Any]]) -> None:
            numbers = self.lanes[name.split("-of-", 1)[1]].numbers
            for record in records:
                number = numbers[record["partition"]]
                self.take(name, number, record["key"], record["value"], record["timestamp"])

        return SimpleNamespace(produce=produce)

    def merge(self, _: object, rows: Sequence[tuple[Any, ...]], name: str, upsert: Upsert) -> None:
        keys = [row[: len(upsert.on)] for row in rows if None not in row[: len(upsert.on)]]
        assert len(keys) == len(set(keys)), "a MERGE cannot write a key twice"
        for *columns, moment, keep in rows:
            key, value = self.of_typed(*columns) if upsert.on == ROWS.key else (_parsed(text) for text in columns)
            assert keep == (value is not None)
            if key is not None or value is not None:
                number, _ = owner(key, value)
                self.take(name, number, key, value, (moment - EPOCH) // timedelta(milliseconds=1))

    def of_typed(self, number: int, name: str | None, fk: str | None, fields: Any) -> tuple[Any, Any]:
        """Key and value of a typed table's row, as a table with JSON values has them."""
        value = None if fields is None else recorded({"fields": fields})
        assert fk == (value or {}).get(self.cases[number].params.get("fk_field"))
        return None if name is None else [number, name], wrapped(number, self.cases[number], value)

    def take(self, name: str, number: int, key: Any, value: Any, ts: int) -> None:
        side, lane = name.split("-of-", 1)
        case, place = self.cases[number], self.next[number]
        # ``merge`` skips rows with neither key nor value: nothing in them names their case.
        while key is not None and case.events[place].key is None and case.events[place].value is None:
            place += 1
        event = case.events[place]
        assert (side, ts) == (event.side, event.ts)
        assert key == (None if event.key is None else [number, event.key])
        assert value == wrapped(number, case, event.value)
        self.next[number] = place + 1
        self.waiting.setdefault(lane, []).append((number, place))

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, only: Sequence[str]) -> None:
        assert only, "all resources would run"
        names = {resource.split("/", 1)[1] for resource in only}
        assert {self.lanes[name].resource for name in names} == set(only)
        self.runs.append(names)
        for name in names:
            waiting = self.waiting.pop(name, [])
            self.most_at_once = max([self.most_at_once, *Counter(number for number, _ in waiting).values()])
            for number, place in waiting:
                self.versions[name] += 1
                found = self.emitted.setdefault(name, [])
                for emission in self.cases[number].expected.emitted[place]:
                    found += [Emitted(self.versions[name], number, spoilt) for spoilt in self.spoil(emission)]

    def newest(self, name: str) -> Any:
        return SimpleNamespace(version=self.versions[name])

    # -- output -------------------------------------------------------------------------------------------------------

    def channel(self, name: str) -> Any:
        return SimpleNamespace(records=lambda: list(self.records(name.removesuffix("-channel"))))

    def records(self, name: str) -> Iterator[dict[str, Any]]:
        output = self.lanes[name].family.output
        tables = isinstance(output, JoinOutput) and output.has_result
        holds: dict[tuple[int, str], str | None] = {}
        for one in self.emitted.get(name, []):
            if not tables or one.emission.value != holds.get(one.place):
                yield {
                    "key": decoded_key(*one.place),
                    "value": None if one.emission.value is None else self.joined(one.number, one.emission.value),
                    "timestamp": one.emission.ts,
                    "offset": end_of(one.version),
                }
            holds[one.place] = one.emission.value

    def join(self, name: str) -> Any:
        rows = [(decoded_key(*place), self.joined(place[0], value)) for place, value in self.held(name)]
        return SimpleNamespace(rows=lambda: rows)

    def table(self, name: str) -> Any:
        table = SimpleNamespace(plan=SimpleNamespace(delta_name=name), newest=lambda _: self.newest(name))
        return SimpleNamespace(table=table, rows=lambda: list(self.rows(name)))

    def rows(self, name: str) -> Iterator[tuple[Any, Any]]:
        for (number, text), value in self.held(name):
            key = json.loads(text)
            if isinstance(key, dict):
                yield Windowed((number, key["key"]), at(key["start"]), at(key["end"])), self.made(number, value)
            else:
                yield (number, key), self.made(number, value)

    def changes(self, name: str) -> list[dict[str, Any]]:
        """The change feed of a table: an emission deletes its row, and inserts it if it has a value."""
        found = []
        for version, number, emission in self.emitted.get(name, []):
            key = json.loads(emission.key)
            window = {f"window_{end}": at(key[end]) for end in ("start", "end")} if isinstance(key, dict) else {}
            own = key["key"] if isinstance(key, dict) else key
            row = {"key": json.dumps([number, own]), **window, "_commit_version": version, "timestamp": at(emission.ts)}
            found.append({**row, "value": "0", "_change_type": "delete"})
            if emission.value is not None:
                value = json.dumps(self.made(number, emission.value))
                found.append({**row, "value": value, "_change_type": "insert"})
        return found

    def held(self, name: str) -> list[tuple[tuple[int, str], str]]:
        last = {one.place: one.emission.value for one in self.emitted.get(name, [])}
        return [(place, value) for place, value in last.items() if value is not None]

    def joined(self, number: int, text: str) -> dict[str, Any]:
        case = self.cases[number]
        if family_of(case).rows == ROWS:
            return {side: _columns(number, row) for side, row in json.loads(text).items() if side in SIDES}
        return {side: wrapped(number, case, row) for side, row in json.loads(text).items()}

    def made(self, number: int, text: str) -> Any:
        """A value of a made table: counts and sums as they are, other values wrapped."""
        value = json.loads(text)
        bare = [value[name] for name in ("count", "sum") if name in value]
        return bare[0] if bare else wrapped(number, self.cases[number], value)


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _columns(number: int, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A row of a typed table."""
    if row is None:
        return None
    return {"number": number, "fields": {name: text_of(field) for name, field in row.items()}}


def decoded_key(number: int, text: str) -> Any:
    key = json.loads(text)
    return None if key is None else (number, key)


def at(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)
