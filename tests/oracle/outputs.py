"""Results, read from the channel of a join or the change feed of a table.

Both are read once, after the last run. An emission belongs to the first run after which the Delta table had at least
its version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

from kaspr_delta import Application
from kaspr_delta.api.records import milliseconds
from kaspr_delta.api.table import Windowed
from kaspr_delta.engine.rows.sequence import version_of
from kaspr_delta.plan.names import default_channel
from kaspr_delta.storage.layout import COMMIT_COLUMNS
from kaspr_delta.storage.limits import Size
from tests.oracle.case import Emission, text
from tests.oracle.wrapping import joined, owner, unwrapped

_ALL = Size(1 << 30, 1 << 30)
RunOf = Callable[[int], int]
"""Returns the run that wrote a version of a Delta table."""


class Result(NamedTuple):
    """An emission of a case in a run."""

    run: int
    number: int
    emission: Emission


class ResultRow(NamedTuple):
    """A final row of a case, as text."""

    number: int
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class JoinOutput:
    """A join: its channel and, unless a stream takes part in it, its result table.

    ``kind`` is the kind of the resource, as in ``join/x``. ``side`` returns one side of a pair in the recorded form.
    """

    has_result: bool
    side: Callable[[Any], Any] = unwrapped
    kind: ClassVar[str] = "join"

    def version(self, app: Application, name: str) -> int:
        """The newest version of the Delta table that emissions are read from."""
        plan = app.plan.join(name)
        assert plan is not None
        return app.delta.newest(app._spark, plan.log).version

    def emissions(self, app: Application, name: str, run_of: RunOf) -> Iterator[Result]:
        """All emissions, in order."""
        for record in app.channel(default_channel(name)).records():
            number, key = owner(record["key"], record["value"])
            emission = Emission(text(key), joined(record["value"], self.side), record["timestamp"])
            yield Result(run_of(version_of(record["offset"])), number, emission)

    def rows(self, app: Application, name: str) -> Iterator[ResultRow]:
        """The current rows."""
        for key, value in app.join(name).rows() if self.has_result else ():
            number, own = owner(key, value)
            yield ResultRow(number, text(own), joined(value, self.side) or "")


@dataclass(frozen=True, slots=True)
class TableOutput:
    """A made table, with the methods of a join. ``value`` returns a row's value in the recorded form."""

    value: Callable[[Any], Any]
    kind: ClassVar[str] = "table"

    def version(self, app: Application, name: str) -> int:
        return app.delta.newest(app._spark, app.table(name).table.plan.delta_name).version

    def emissions(self, app: Application, name: str, run_of: RunOf) -> Iterator[Result]:
        return differences_by_run(self._change(row, run_of) for row in changes(app, name))

    def rows(self, app: Application, name: str) -> Iterator[ResultRow]:
        for place, value in app.table(name).rows():
            key, *window = place if isinstance(place, Windowed) else (place,)
            number, own = owner(key, value)
            yield ResultRow(number, _key(own, *window), text(self.value(value)))

    def _change(self, row: Mapping[str, Any], run_of: RunOf) -> Result:
        key, value = (None if row[name] is None else json.loads(row[name]) for name in ("key", "value"))
        number, own = owner(key, value)
        holds = value is not None and row["_change_type"] != "delete"
        place = _key(own, *(row[name] for name in ("window_start", "window_end") if name in row))
        moment = milliseconds(row["timestamp"])
        emission = Emission(place, text(self.value(value)) if holds else None, -1 if moment is None else moment)
        return Result(run_of(row["_commit_version"]), number, emission)


def changes(app: Application, name: str) -> list[Mapping[str, Any]]:
    """The change feed of a table without old values of updates. In each commit deletions come first."""
    plan = app.table(name).table.plan
    columns = ("key", "value", "timestamp", *(("window_start", "window_end") if plan.window else ()))
    newest = app.delta.newest(app._spark, plan.delta_name).version
    feed = app.delta.changes_here(plan.delta_name, 0, newest, _ALL, columns)
    if feed is None:
        feed = app.delta.changes(app.spark, plan.delta_name).select(*columns, *COMMIT_COLUMNS).toArrow()
    rows = (row for row in feed.to_pylist() if row["_change_type"] != "update_preimage")
    return sorted(rows, key=lambda row: (row["_commit_version"], row["_change_type"] != "delete"))


def differences_by_run(changed: Iterable[Result]) -> Iterator[Result]:
    """The last change of each row in a run, if the run changed the value of the row."""
    holds: dict[tuple[int, str], str] = {}
    for _, of_run in groupby(changed, key=lambda change: change.run):
        last = {(change.number, change.emission.key): change for change in of_run}
        for place, change in last.items():
            if change.emission.value != holds.get(place):
                yield change
            if change.emission.value is None:
                holds.pop(place, None)
            else:
                holds[place] = change.emission.value


def _key(own: Any, *window: Any) -> str:
    if not window:
        return text(own)
    start, end = (milliseconds(moment) for moment in window)
    return text({"key": own, "start": start, "end": end})
