"""A copy of a table for reads by key, in a temporary SQLite database that follows the table by its change feed.

A read takes microseconds, whatever the size of the table: the database is on disk. It has all rows of each key, because
Delta has no unique keys. The feed names the rows that a commit removed and added. If the feed cannot be followed, the
table is copied again.
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.agent.table_state import Cell, RowKey
from kaspr_delta.engine.rows.row_texts import Row, best_of, row_texts, rows_of
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.log_files import Head

LOOK = 0.1
"""Seconds between two looks at a table on this machine."""

_log = logging.getLogger(__name__)
# With more changes than this in one read of the feed the table is copied again.
_MANY_CHANGES = 200_000
# At most so many seconds until the next try if a table cannot be copied, for example on a full disk.
_LONGEST_PAUSE = 60.0
# Keys in one query.
_KEYS = 500
_TABLE = "CREATE TABLE rows (key TEXT, start INTEGER, at INTEGER, value TEXT)"
_INDEX = "CREATE INDEX rows_by_key ON rows (key, start)"
_ADD = "INSERT INTO rows VALUES (?, ?, ?, ?)"
_REMOVE = """
DELETE FROM rows WHERE rowid =
(SELECT rowid FROM rows WHERE key = ? AND start = ? AND at IS ? AND value = ? LIMIT 1)
"""
_FIND = "SELECT * FROM rows WHERE key = ? AND start = ?"
_SCAN = "SELECT * FROM rows WHERE ? IS NULL OR start = ?"


class LocalCopy:
    """The current rows of a table that others write. ``refresh`` is called by one thread, any thread may read.

    Before the first refresh each read is a query.
    """

    def __init__(self, delta: DeltaRs, plan: TablePlan, look: float = LOOK) -> None:
        """``look``: the seconds between two looks at the table."""
        self.delta = delta
        self._look = look
        self.plan = plan
        self.ready = False
        """Whether reads use the copy."""
        self._rows = row_texts(plan)
        # The commit at which the table was copied or to which the copy followed it.
        self._head: Head | None = None
        self._database: sqlite3.Connection | None = None
        # Of the database: so that a read sees the rows of one commit.
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self) -> None:
        """Refresh the copy in a thread until ``close``."""
        name = f"copy of {self.plan.name}"
        self._thread = threading.Thread(target=self._keep_fresh, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following, and remove the copy. Reads are queries again."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._replace(None, None)

    # -- reading: a TableReader -----------------------------------------------------------------------------------

    def fetch(self, row_keys: Collection[RowKey]) -> dict[RowKey, str]:
        """The values of the row keys that have a row."""
        pairs = {row_key: _as_pair(row_key) for row_key in row_keys}
        rows = self._copied(_FIND, pairs.values())
        best = best_of(self._query(pairs.values()) if rows is None else rows, self._rows.rank)
        return {row_key: best[pair] for row_key, pair in pairs.items() if pair in best}

    def scan(self, start: int | None) -> dict[RowKey, str]:
        """All rows, or those of the window that begins at ``start``."""
        rows: Iterable[Row] | None = self._copied(_SCAN, [(start, start)])
        if rows is None:
            rows = itertools.chain.from_iterable(map(rows_of, self._batches()))
        best = best_of(rows, self._rows.rank)
        if start is None:
            return {key: value for (key, _), value in best.items()}
        return {Cell(key, begins): value for (key, begins), value in best.items() if begins == start}

    def _copied(self, sql: str, parameters: Iterable[tuple[object, ...]]) -> list[Row] | None:
        """The rows of a SELECT with each of these parameters; None if there is no copy."""
        with self._lock:
            if self._database is None or not self.ready:
                return None
            execute = self._database.execute
            return [Row._make(row) for given in parameters for row in execute(sql, given)]

    def _query(self, row_keys: Collection[tuple[str, int]]) -> Iterator[Row]:
        keys = iter(sorted({key for key, _ in row_keys}))
        while some := list(itertools.islice(keys, _KEYS)):
            for batch in self._batches(condition=self._rows.condition(some)):
                yield from rows_of(batch)

    def _batches(self, version: int | None = None, condition: str = "true") -> Iterator[pa.Table]:
        """The rows of the table at a version, with the columns of Row."""
        for batch in self.delta.query(self.plan.state, self._rows.select(condition), version):
            rows = self._rows.texts(batch)
            yield rows.filter(pc.is_valid(rows["value"]))

    # -- following --------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Take up new commits. Return whether there were any."""
        changed = False
        while (head := self.delta.head(self.plan.state, self._head)) != self._head:
            if head is None:
                self._replace(None, None)
                return False
            try:
                self._bring_to(head)
            except SerializationError:  # a column has another type by now: an old answer would be worse than none
                self._replace(None, None)
                raise
            changed = True
            if self.ready:
                break
            # Reads were queries: they may have shown commits that came during the copy.
        self.ready = self._head is not None
        return changed

    def _keep_fresh(self) -> None:
        pause = self._look
        while not self._stop.wait(pause):
            try:
                self.refresh()
                pause = self._look
            except Exception:  # noqa: BLE001  a table may be dropped or made anew at any time: try again later
                pause = min(10 * pause, _LONGEST_PAUSE)
                _log.warning("the copy of %s could not be brought up to date", self.plan.name, exc_info=True)

    def _bring_to(self, head: Head) -> None:
        """Follow the change feed to a commit, or copy the table again if that is not possible."""
        try:
            followed = self._follow(head)
        except Exception:  # noqa: BLE001  delta-rs reads no feed in which a column changes its type
            _log.info("the changes of %s cannot be read: it is copied anew", self.plan.name, exc_info=True)
            followed = False
        if not followed:
            self._replace(head, self.copied_anew(head))

    def copied_anew(self, head: Head) -> sqlite3.Connection:
        """A database with the whole table. SQLite removes its file when it is closed."""
        database = sqlite3.connect("", check_same_thread=False)
        try:
            with database:
                database.execute(_TABLE)
                for batch in self._batches(head.version):
                    database.executemany(_ADD, rows_of(batch))
                database.execute(_INDEX)
        except BaseException:
            database.close()
            raise
        return database

    def _replace(self, head: Head | None, database: sqlite3.Connection | None) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._head, self._database, self.ready = head, database, self.ready and database is not None

    def _follow(self, head: Head) -> bool:
        """Take up newer commits by the change feed. False if the table must be copied again."""
        last, database = self._head, self._database
        if last is None or database is None or not self.delta.has(self.plan.state, last):
            return False
        first = last.version + 1
        if head.version < first or not self.delta.followable(self.plan.state, first, head.version):
            return False
        commits: dict[int, tuple[list[Row], list[Row]]] = {}
        count = 0
        for batch in self.delta.changes(self.plan.state, first, head.version):
            kinds, versions = (batch.column(name).to_pylist() for name in ("_change_type", "_commit_version"))
            for kind, version, row in zip(kinds, versions, rows_of(self._rows.texts(batch)), strict=True):
                removed, added = commits.setdefault(version, ([], []))
                if row.value is not None:
                    (removed if kind in {"delete", "update_preimage"} else added).append(row)
            count += batch.num_rows
            if count > _MANY_CHANGES:
                return False
        with self._lock, database:
            for _, (removed, added) in sorted(commits.items()):
                if database.executemany(_REMOVE, removed).rowcount < len(removed):
                    raise LookupError("the feed removes rows that the copy does not have")
                database.executemany(_ADD, added)
        self._head = head
        return True


def _as_pair(row_key: RowKey) -> tuple[str, int]:
    return (row_key.key, row_key.start) if isinstance(row_key, Cell) else (row_key, 0)
