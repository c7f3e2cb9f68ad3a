"""The past of a table: its versions as far as they can be read, and the rows that its last change changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from kaspr_delta.serde.json_text import key_texts
from kaspr_delta.serde.unfolded import parsed, unfolded
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.commit_info import CommitInfo
from kaspr_delta.storage.layout import RECORDS
from kaspr_delta.storage.page_reads import NOT_SHOWN, Columns, History, PageReads, RowFilter, RowsFound, TextFilter

_SHOWN = ("key", "value", "left", "right", "window_start", "window_end", "timestamp")
_WINDOW = "window_start"


@dataclass(frozen=True, slots=True)
class Change:
    """A row before and after a commit, columns by name; None if it did not exist."""

    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def word(self) -> str:
        """The kind of the change: ``new``, ``changed`` or ``deleted``."""
        if self.before is None:
            return "new"
        return "deleted" if self.after is None else "changed"

    @property
    def row(self) -> Mapping[str, Any]:
        """The row after the commit; the row before it if it was deleted."""
        return self.after or self.before or {}


@dataclass(frozen=True, slots=True)
class LastChange:
    """The newest commit that changed rows, and some of them. ``why_not``: why its change feed cannot be read."""

    commit: CommitInfo
    changes: tuple[Change, ...] = ()
    why_not: str = ""

    @property
    def only_adds(self) -> bool:
        """Whether all its rows are new, as in a first load."""
        return all(change.before is None for change in self.changes)


@dataclass(frozen=True, slots=True)
class Then:
    """A version of a table: its commit, if the log has it still, how many rows it held, and some of them.

    ``since`` are some of the rows that have changed since, and ``changed`` is the number of all; None for the newest
    version, and if rows have no keys of their own. ``why_not``: why the rows of the version cannot be read.
    """

    version: int
    commit: CommitInfo | None
    count: int = 0
    rows: tuple[Mapping[str, Any], ...] = ()
    changed: int | None = None
    since: tuple[Change, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class Past:
    """The past of one Delta table: its commits, and the columns that it has now. ``key`` are the columns of its key.

    ``is_typed``: the table has columns of its own, and all of them are shown.
    """

    tables: PageReads
    table: str
    history: History
    columns: dict[str, Type]
    key: tuple[str, ...]
    is_typed: bool
    most: int = 20

    @classmethod
    def of(cls, tables: PageReads, table: str, key: tuple[str, ...] = ("key",), *, is_typed: bool = False) -> Past:
        """The past of a table by now."""
        with ThreadPoolExecutor() as at_once:
            columns = at_once.submit(tables.columns, table)
            return cls(tables, table, tables.history(table), columns.result(), key, is_typed)

    @property
    def versions(self) -> range:
        """The versions that the log knows."""
        return self.history.versions

    @property
    def has_text_keys(self) -> bool:
        """Whether rows can be asked for by a key that people type."""
        kind = self.columns.get(self.key[0]) if len(self.key) == 1 else None
        return kind is not None and kind.name == "STRING"

    def last_change(self) -> LastChange | None:
        """The newest commit that changed rows; None if there is none."""
        version = self.history.newest_change
        commit = None if version is None else self.history.commit(version)
        if version is None or commit is None:
            return None
        shown = {name: kind for name, kind in self.columns.items() if name in {*self._shown(self.columns), "seq"}}
        texts = {"kind": RECORDS} if "kind" in self.columns and not self.is_typed else {}
        feed = self.tables.change_feed(self.table, version, shown, texts, self._keys_in(self.columns), self.most)
        return LastChange(commit, why_not=feed) if isinstance(feed, str) else LastChange(commit, self._paired(feed))

    def then(self, version: int, key: str = "", find: str = "", most: int | None = None) -> Then:
        """The table at a version, or at the nearest one that exists; with a key only its rows.

        A key is canonical JSON text, or the text inside its quotes. At most ``most`` rows are read, filtered by
        ``find`` as ``RowFilter`` says.
        """
        known = self.versions
        version = min(max(version, known.start), known.stop - 1)
        is_newest = version == known.stop - 1
        then = Then(version, self.history.commit(version))
        before = (None if is_newest else self.tables.columns(self.table, version)) or self.columns
        texts = {self.key[0]: tuple(key_texts(key))} if key and self.has_text_keys else {}
        where, most = RowFilter(texts, find), most or self.most
        with ThreadPoolExecutor() as at_once:
            rows = at_once.submit(self._rows, version, before, where, most)
            both = {name: kind for name, kind in self._shown(self.columns).items() if name in before}
            is_log = "seq" in self.columns and not self.is_typed
            comparing = (
                None
                if is_newest or is_log or not self._keys_in(both)
                else at_once.submit(self._changed, version, both, texts)
            )
            found = rows.result()
        if isinstance(found, str) and is_newest:  # with row filters a catalog reads no version, only the current rows
            found = self._rows(None, self.columns, where, most)
        if isinstance(found, str):
            return replace(then, why_not=found)
        then = replace(then, count=found.count, rows=found.rows)
        return then if comparing is None else replace(then, **comparing.result())

    def _rows(self, version: int | None, columns: Columns, where: RowFilter, most: int) -> RowsFound | str:
        return self.tables.rows(self.table, version, self._shown(columns), where, self._keys_in(columns), most)

    def _changed(self, version: int, columns: Columns, texts: TextFilter) -> dict[str, Any]:
        """The changes since a version, as fields of Then."""
        key = self._keys_in(columns)
        changed = self.tables.changed_since(self.table, version, columns, texts, key, self.most)
        return {"changed": changed.count, "since": tuple(Change(*pair) for pair in changed.pairs)}

    def _keys_in(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns among these that tell rows apart."""
        return tuple(name for name in (*self.key, _WINDOW) if name in columns)

    def _paired(self, feed: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
        """The changes in a change feed: each row before and after."""
        before: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        after: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for row in feed:
            # A log has a row for every time that a key was emitted.
            row_key = (*(row.get(name) for name in (*self.key, _WINDOW)), None if self.is_typed else row.get("seq"))
            side = before if row["_change_type"] in {"update_preimage", "delete"} else after
            side[row_key] = self._shown(row)
        first = sorted({*before, *after}, key=str)[: self.most]
        both = ((before.get(row_key), after.get(row_key)) for row_key in first)
        return tuple(Change(was, now) for was, now in both if was != now)

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        if self.is_typed:
            return {name: value for name, value in row.items() if not name.startswith(NOT_SHOWN)}
        return {name: row[name] for name in _SHOWN if name in row}


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed rows with the same columns; None in place of a row that did not exist."""

    columns: tuple[str, ...]
    pairs: tuple[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None], ...]


def unfolded_changes(changes: Sequence[Change], json: Collection[str]) -> Changes:
    """The kind of each change, and its row before and after. Columns named by ``json`` hold JSON text."""
    sides = [side for change in changes for side in (change.before, change.after)]
    rows = iter(unfolded(parsed((row for row in sides if row is not None), json)))
    found = [None if side is None else next(rows) for side in sides]
    columns = next((tuple(row) for row in found if row is not None), ())
    words = (change.word for change in changes)
    return Changes(columns, tuple(zip(words, found[::2], found[1::2], strict=True)))
