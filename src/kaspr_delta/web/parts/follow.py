"""One key of a join of two tables, station by station: from its left row to its result."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan, TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.layout import RECORDS
from kaspr_delta.storage.page_reads import PageReads, RowFilter
from kaspr_delta.web.parts.stored import json_of, key_columns
from kaspr_delta.web.parts.unfolded import parsed, unfolded
from kaspr_delta.web.past import NOT_SHOWN, key_texts

_MOST = 20
_Rows = list[dict[str, Any]]
_EMITTED = ("kind", "left", "right", "timestamp", "batch")


@dataclass(frozen=True, slots=True)
class Station:
    """A station of a key. ``ref``: the resource that holds its rows; ``why_not``: why these cannot be read."""

    title: str
    about: str
    ref: ResourceRef | None
    rows: _Rows
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Follower:
    """Finds the stations of keys."""

    tables: PageReads
    plan: Plan
    join: TableTableJoinPlan

    def stations(self, key: str) -> list[Station]:
        """The stations of a key, which is canonical JSON text, or the text inside its quotes."""
        keys, join = list(key_texts(key)), self.join
        with ThreadPoolExecutor() as at_once:
            left = at_once.submit(self._side, "Left row", "It drives the join.", join.left, keys)
            emitted = at_once.submit(self._emitted, keys)
            result = at_once.submit(self._side, "Result", "Readers of the join see it.", join.name, keys)
            between = list(self._between(keys))
        return [left.result(), *between, emitted.result(), result.result()]

    def _between(self, keys: list[str]) -> list[Station]:
        """The subscription, if there is one, and the right row."""
        join = self.join
        if not isinstance(join, ForeignKeyJoinPlan):
            return [self._side("Right row", "It has the same key.", join.right, keys)]
        found = self._rows(join.subscriptions, "key", keys, ("fk",))
        subscribed = found if isinstance(found, list) else []
        about = "The extractor returned this foreign key: the join waits for changes of that right row."
        rows = [{"foreign key": row["fk"]} for row in parsed(subscribed, ("fk",))]
        subscription = Station("Subscription", about, None, rows, found if isinstance(found, str) else "")
        right = [str(row["fk"]) for row in subscribed if row["fk"] is not None]
        return [subscription, self._side("Right row", "It has the foreign key.", join.right, right)]

    def _side(self, title: str, about: str, name: str, keys: list[str]) -> Station:
        """The rows of a table, or of a join's result, with one of these keys."""
        table = self.plan.table_or_result(name)
        ref = ResourceRef.of(self.plan.label_of(name))
        key = key_columns(self.plan, ref)
        if len(key) > 1:
            return Station(title, about, ref, [], "its key has several columns")
        # In a column of its own a key has no quotes.
        texts = keys if key == ("key",) else [text for one in keys for text in (one, one.strip('"'))]
        return self._station(title, about, ref, self._rows(table.delta_name, key[0], texts), json_of(self.plan, ref))

    def _emitted(self, keys: list[str]) -> Station:
        found = self._rows(self.join.log, "key", keys, _EMITTED, ("timestamp", "seq"))
        about = "The records of the channel with this key, the newest first."
        return self._station("Responses", about, None, found, json_of(self.plan, self.join.ref))

    def _station(
        self, title: str, about: str, ref: ResourceRef | None, found: _Rows | str, json: Collection[str]
    ) -> Station:
        if isinstance(found, str):
            return Station(title, about, ref, [], found)
        return Station(title, about, ref, unfolded(parsed(found, json)))

    def _rows(
        self, table: str, key: str, texts: list[str], shown: Collection[str] = (), newest_by: tuple[str, ...] = ()
    ) -> _Rows | str:
        """The rows with one of these keys; of a channel its records only. Why not, if they cannot be read."""
        has = self.tables.columns(table)
        if not has or not texts:
            return []
        if key not in has or has[key].name != "STRING":
            return "its keys are not text"
        columns = {name: kind for name, kind in has.items() if not name.startswith(NOT_SHOWN)}
        columns = {name: columns[name] for name in shown if name in columns} or columns
        where = RowFilter({key: texts, **({"kind": RECORDS} if "kind" in columns else {})})
        found = self.tables.rows(table, None, columns, where, newest_by or (key,), _MOST, newest=bool(newest_by))
        return found if isinstance(found, str) else list(map(dict, found.rows))
