"""What a table was: its versions as far as they can be read, and what its last change did to which rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kaspr_delta.errors import SerializationError
from kaspr_delta.serde.json_text import canonical_key
from kaspr_delta.storage.commit_rows import CommitInfo
from kaspr_delta.storage.delta_rs import DeltaRs, literal, quoted
from kaspr_delta.storage.layout import PAIR, WRITTEN_AT

_SHOWN = ("key", "value", "left", "right", "window_start", "window_end", "timestamp")
_WINDOW = "window_start"
# Columns that only a change feed has, and what a result keeps of the pair that it selects from.
_NOT_SHOWN = ("_change_type", "_commit_", PAIR)
# Rows of a log that say something to people, where it has others for its join alone.
_RECORDS = ("value", "tombstone")


@dataclass(frozen=True, slots=True)
class Change:
    """A row before and after a commit, columns by name; None where it was not there."""

    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def word(self) -> str:
        """What happened to it."""
        if self.before is None:
            return "new"
        return "deleted" if self.after is None else "changed"

    @property
    def row(self) -> Mapping[str, Any]:
        """What names the row."""
        return self.after or self.before or {}


@dataclass(frozen=True, slots=True)
class LastChange:
    """The newest commit that changed rows, and some of them. ``told``: whether its change feed tells them."""

    commit: CommitInfo
    changes: tuple[Change, ...]
    told: bool


@dataclass(frozen=True, slots=True)
class Then:
    """A version of a table: its commit, if the log has it still, how many rows it held, and some of them.

    ``since`` are some of the rows that are others by now, and ``changed`` how many are; None where rows have no keys
    of their own. ``whole``: whether the files of the version are there; otherwise there are no rows.
    """

    version: int
    commit: CommitInfo | None
    count: int = 0
    rows: tuple[Mapping[str, Any], ...] = ()
    changed: int | None = None
    since: tuple[Change, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Past:
    """The past of one Delta table. ``key`` are the columns of its key.

    Of a table with columns of its own all of them are shown.
    """

    delta: DeltaRs
    table: str
    key: tuple[str, ...] = ("key",)
    is_typed: bool = False
    most: int = 20

    @property
    def versions(self) -> range:
        """The versions that the log knows."""
        return self.delta.versions(self.table)

    @property
    def has_text_keys(self) -> bool:
        """Whether rows can be asked for by a key that people type."""
        return len(self.key) == 1 and self.delta.columns(self.table).get(self.key[0]) == "string"

    def last_change(self) -> LastChange | None:
        """What the newest change did; None where nothing was ever written."""
        version = self.delta.newest_change(self.table)
        commit = None if version is None else self.delta.commit(self.table, version)
        if version is None or commit is None:
            return None
        if not self.delta.followable(self.table, version, version):
            return LastChange(commit, (), told=False)
        rows = (row for batch in self.delta.changes(self.table, version, version) for row in batch.to_pylist())
        return LastChange(commit, tuple(self._paired(rows)), told=True)

    def then(self, version: int, key: str = "") -> Then:
        """The table at a version, the nearest there is; with a key only its rows.

        A key is canonical JSON text, or what stands in its quotes.
        """
        known = self.versions
        version = min(max(version, known.start), known.stop - 1)
        commit = self.delta.commit(self.table, version)
        if not self.delta.is_whole(self.table, version):
            return Then(version, commit, whole=False)
        asked = bool(key) and self.has_text_keys
        wanted = f"{quoted(self.key[0])} IN ({', '.join(map(literal, _texts(key)))})" if asked else "true"
        columns, before = self.delta.columns(self.table), self.delta.columns(self.table, version)
        order = ", ".join(quoted(name) for name in self._place if name in before)
        (counted,) = self._rows(f"SELECT count(*) AS rows FROM t WHERE {wanted}", version)  # noqa: S608
        rows = self._rows(f"SELECT * FROM t WHERE {wanted} ORDER BY {order} LIMIT {self.most}", version)  # noqa: S608
        then = Then(version, commit, counted["rows"], tuple(map(self._shown, rows)))
        is_log = "seq" in columns and not self.is_typed
        if version == known.stop - 1 or is_log:
            return then
        return self._compared(then, list(self._shown({name: name for name in columns if name in before})), wanted)

    def _compared(self, then: Then, columns: Sequence[str], wanted: str) -> Then:
        """The same with what has changed since."""
        place = [name for name in columns if name in self._place]
        values = [name for name in columns if name not in {*self._place, "timestamp", WRITTEN_AT}]
        both = ", ".join(
            f"{of}.{quoted(name)} AS {quoted(f'{side}_{name}')}"
            for name in columns
            for of, side in (("t", "then"), ("now", "now"))
        )
        same_place = " AND ".join(f"t.{quoted(name)} = now.{quoted(name)}" for name in place)
        differs = (f"(t.{quoted(name)} IS DISTINCT FROM now.{quoted(name)})" for name in values)
        other = " OR ".join(differs) or "false"
        order = ", ".join(f"coalesce({quoted(f'then_{name}')}, {quoted(f'now_{name}')})" for name in place)
        found = (
            f"SELECT {both}, t.there AS is_then, now.there AS is_now"  # noqa: S608
            f" FROM (SELECT *, true AS there FROM t WHERE {wanted}) t"
            f" FULL OUTER JOIN (SELECT *, true AS there FROM now WHERE {wanted}) now ON {same_place}"
            f" WHERE t.there IS NULL OR now.there IS NULL OR {other}"
        )
        (counted,) = self._rows(f"SELECT count(*) AS rows FROM ({found})", then.version)  # noqa: S608
        rows = self._rows(f"{found} ORDER BY {order} LIMIT {self.most}", then.version)
        since = tuple(Change(_side(row, "then", columns), _side(row, "now", columns)) for row in rows)
        return replace(then, changed=counted["rows"], since=since)

    def _rows(self, sql: str, version: int | None = None) -> list[dict[str, Any]]:
        return [row for batch in self.delta.query(self.table, sql, version) for row in batch.to_pylist()]

    @property
    def _place(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return (*self.key, _WINDOW)

    def _paired(self, feed: Iterable[Mapping[str, Any]]) -> Iterator[Change]:
        """Rows of a change feed by what they name, what was and what is of each."""
        before: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        after: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for row in feed:
            if not self.is_typed and row.get("kind", "value") not in _RECORDS:
                continue
            # A log names a key as often as it was emitted.
            place = (*(row.get(name) for name in self._place), None if self.is_typed else row.get("seq"))
            side = before if row["_change_type"] in {"update_preimage", "delete"} else after
            side[place] = self._shown(row)
        for place in sorted({*before, *after}, key=str)[: self.most]:
            if before.get(place) != after.get(place):
                yield Change(before.get(place), after.get(place))

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        if self.is_typed:
            return {name: value for name, value in row.items() if not name.startswith(_NOT_SHOWN)}
        return {name: row[name] for name in _SHOWN if name in row}


def _side(row: Mapping[str, Any], side: str, columns: Iterable[str]) -> dict[str, Any] | None:
    """One side of a compared row; None where it was not there."""
    return {name: row[f"{side}_{name}"] for name in columns} if row[f"is_{side}"] else None


def _texts(key: str) -> Iterator[str]:
    """How a key may stand in a table."""
    yield key
    try:
        yield canonical_key(key)
    except SerializationError:
        return
