"""One key of a join of two tables, station by station, from its left row to its result, and why that is as it is."""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from kaspr_delta.control.reasons import Found, Reasons
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.serde.joined_text import json_of, key_columns
from kaspr_delta.serde.unfolded import parsed, unfolded
from kaspr_delta.storage.layout import RECORDS
from kaspr_delta.storage.page_reads import NOT_SHOWN, RowFilter, RowReads, TextFilter

_MOST = 20
_Rows = list[dict[str, Any]]
_EMITTED = ("kind", "left", "right", "timestamp", "batch")
_WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


@dataclass(frozen=True, slots=True)
class Station:
    """A station of a key. ``ref``: the resource that holds its rows; ``why_not``: why these cannot be read."""

    title: str
    about: str
    ref: ResourceRef | None
    rows: _Rows
    why_not: str = ""

    @property
    def unfolded(self) -> _Rows:
        """The rows with a column for each field of their objects."""
        return unfolded(self.rows)


@dataclass(frozen=True, slots=True)
class Followed:
    """The stations of a key in their order, and sentences that say why its result is as it is."""

    stations: tuple[Station, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Follower:
    """Finds the stations of keys."""

    tables: RowReads
    plan: Plan
    join: TableTableJoinPlan

    def follow(self, keys: Sequence[str]) -> Followed:
        """Follow a key, which may have any of these texts in a table."""
        join = self.join
        with ThreadPoolExecutor() as at_once:
            left = at_once.submit(self._side, "Left row", "It drives the join.", join.left, keys)
            emitted = at_once.submit(self._emitted, keys)
            result = at_once.submit(self._side, "Result", "Readers of the join see it.", join.name, keys)
            between = self._between(keys)
        stations = (left.result(), *between, emitted.result(), result.result())
        return Followed(stations, tuple(self._reasons(stations)))

    def _reasons(self, stations: Sequence[Station]) -> list[str]:
        unread = [station.title for station in stations if station.why_not]
        if unread:
            return [f"What follows from them is not known: {', '.join(unread).lower()} cannot be read."]
        left, *subscription, right, emitted, result = (station.rows for station in stations)
        return Reasons.of(self.plan, self.join).given(
            Found(left, subscription[0] if subscription else None, right, emitted, result)
        )

    def _between(self, keys: Sequence[str]) -> list[Station]:
        """The subscription, if there is one, and the right row."""
        join = self.join
        if not isinstance(join, ForeignKeyJoinPlan):
            return [self._side("Right row", "It has the same key.", join.right, keys)]
        found = self._rows(join.subscriptions, "key", keys, ("fk",))
        subscribed = found if isinstance(found, list) else []
        about = "The extractor returned this foreign key: the join waits for changes of that right row."
        rows = [{"foreign key": row["fk"]} for row in parsed(subscribed, ("fk",) if self._has_json_keys else ())]
        subscription = Station("Subscription", about, None, rows, found if isinstance(found, str) else "")
        right = [str(row["fk"]) for row in subscribed if row["fk"] is not None]
        return [subscription, self._side("Right row", "It has the foreign key.", join.right, right)]

    @cached_property
    def _has_json_keys(self) -> bool:
        """Whether foreign keys are JSON text; those of a table with raw keys are bytes in base64."""
        return self.plan.table_or_result(self.join.right).serializers.key == "json"

    def _side(self, title: str, about: str, name: str, keys: Sequence[str]) -> Station:
        """The rows of a table, or of a join's result, with one of these keys."""
        table = self.plan.table_or_result(name)
        ref = ResourceRef.of(self.plan.label_of(name))
        key = key_columns(self.plan, ref)
        if len(key) > 1:
            return Station(title, about, ref, [], "its key has several columns")
        # In a column of its own a key has no quotes.
        texts = keys if key == ("key",) else [text for one in keys for text in (one, one.strip('"'))]
        return self._station(title, about, ref, self._rows(table.delta_name, key[0], texts), json_of(self.plan, ref))

    def _emitted(self, keys: Sequence[str]) -> Station:
        log, records = self.join.log, {"kind": RECORDS}
        found = self._rows(log, "key", keys, _EMITTED, ("checkpoint", "batch"), records)
        if isinstance(found, list):  # those that a retry put there again have no batch
            found.sort(key=lambda row: row.get("batch") is None)
        about = "The records of the channel with this key, the newest first."
        return self._station("Responses", about, None, found, json_of(self.plan, self.join.ref))

    def _station(
        self, title: str, about: str, ref: ResourceRef | None, found: _Rows | str, json: Collection[str]
    ) -> Station:
        if isinstance(found, str):
            return Station(title, about, ref, [], found)
        return Station(title, about, ref, parsed(found, json))

    def _rows(  # noqa: PLR0913, PLR0917  as RowReads has it
        self,
        table: str,
        key: str,
        texts: Sequence[str],
        shown: Collection[str] = (),
        newest_by: tuple[str, ...] = (),
        also: TextFilter = MappingProxyType({}),
    ) -> _Rows | str:
        """The rows with one of these keys for which ``also`` holds. Why not, if they cannot be read."""
        has = self.tables.columns(table)
        if not has or not texts:
            return []
        where = _of_keys(key, has[key].name if key in has else "", texts, also)
        if where is None or isinstance(where, str):
            return where or []
        columns = {name: kind for name, kind in has.items() if not name.startswith(NOT_SHOWN)}
        columns = {name: columns[name] for name in shown if name in columns} or columns
        found = self.tables.rows(table, None, columns, where, newest_by or (key,), _MOST, newest=bool(newest_by))
        return found if isinstance(found, str) else list(map(dict, found.rows))


def _of_keys(column: str, kind: str, texts: Sequence[str], also: TextFilter) -> RowFilter | str | None:
    """The filter for rows with one of these keys; None: no row can have one. A text: why it cannot be asked for."""
    if kind == "BINARY" and column == "key":
        raw = [key for text in texts if (key := _raw_key(text)) is not None]
        return RowFilter(also, keys=raw) if raw else None
    if kind in _WHOLE_NUMBERS:
        texts = [text for text in texts if text.removeprefix("-").isdecimal()]
        return RowFilter({column: texts, **also}) if texts else None
    return RowFilter({column: texts, **also}) if kind == "STRING" else "its keys are not text"


def _raw_key(text: str) -> bytes | None:
    """The bytes for which a base64 text stands; None if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
