"""A copy of a table for reads by key: sorted files in a temporary folder, and the changes since by the change feed.

A read takes microseconds, whatever the size of the table. Memory holds recent changes, the rest is on disk. The feed
names the keys that a commit touched and their new values. If it does not determine the rows of a key, for example
because the key has several, the table is queried. If the feed cannot be followed, the table is copied again.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.agent.table_state import Cell
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.storage.native.delta_rs import DeltaRs, Head
from kaspr_delta.web.row_texts import row_texts
from kaspr_delta.web.sorted_run import Row, RowKey, SortedRun, as_table, best_of, rank, rows_of

_log = logging.getLogger(__name__)
# How many bytes of rows are sorted at once, changed rows are held in memory, files of changed rows are kept.
_RUN_BYTES = 64 * 2**20
_RECENT_ROWS = 20_000
_MOST_CHANGES = 32
# With more changes than this in one read of the feed the table is copied again.
_MANY_CHANGES = 200_000
# At most so many seconds until the next try if a table cannot be copied, for example on a full disk.
_LONGEST_PAUSE = 60.0
# Keys in one query.
_KEYS = 500


@dataclass(frozen=True, slots=True)
class State:
    """The table at one version: rows as they were copied, changed rows in files, the newest last, and in memory.

    ``doubtful`` are row keys whose rows the feed does not determine, for example because they have several. ``by`` is
    the sort key of rows with one row key.
    """

    head: Head
    base: tuple[SortedRun, ...] = ()
    changed: tuple[SortedRun, ...] = ()
    recent: dict[tuple[str, int], Row] = field(default_factory=dict)
    doubtful: frozenset[tuple[str, int]] = frozenset()
    by: Callable[[Row], Any] = rank

    def rows(self, key: str, start: int) -> list[Row]:
        """The rows with a row key: all of them if nothing changed since the copy, otherwise one or none."""
        known = self.recent.get((key, start))
        if known is None:
            known = next((run_rows[0] for run in reversed(self.changed) if (run_rows := run.find(key, start))), None)
        if known is not None:
            return [known] if known.value is not None else []
        return [row for run in self.base for row in run.find(key, start)]

    def value(self, key: str, start: int) -> str | None:
        """The value of a row; None if there is none."""
        rows = self.rows(key, start)
        return max(rows, key=self.by).value if rows else None

    def all(self) -> dict[tuple[str, int], Row]:
        """All rows by row key."""
        found = best_of(itertools.chain.from_iterable(self.base), self.by)
        for row in itertools.chain.from_iterable(self.changed):
            found[row[:2]] = row
        found.update(self.recent)
        return {row_key: row for row_key, row in found.items() if row.value is not None}


class LocalCopy:
    """The current rows of a table that others write. One thread calls ``refresh``, any thread may read.

    Before the first refresh each read is a query.
    """

    def __init__(self, delta: DeltaRs, plan: TablePlan, folder: Path | None = None) -> None:
        self.delta = delta
        self.plan = plan
        self._rows = row_texts(plan)
        self.folder = Path(tempfile.mkdtemp(prefix="kaspr-delta-", dir=folder))
        self._numbers = itertools.count()
        self._state: State | None = None

    @property
    def ready(self) -> bool:
        """Whether reads use the copy."""
        return self._state is not None

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- reading: a TableReader -----------------------------------------------------------------------------------

    def fetch(self, row_keys: Collection[RowKey]) -> dict[RowKey, str]:
        """The values of the row keys that have a row."""
        state = self._state
        if state is None:
            best = self._best_of(self._query(_as_pair(row_key) for row_key in row_keys))
            found = {row_key: best.get(_as_pair(row_key)) for row_key in row_keys}
            return {row_key: row.value for row_key, row in found.items() if row is not None and row.value is not None}
        values = {row_key: state.value(*_as_pair(row_key)) for row_key in row_keys}
        return {row_key: value for row_key, value in values.items() if value is not None}

    def scan(self, start: int | None) -> dict[RowKey, str]:
        """All rows, or those of the window that begins at ``start``."""
        state = self._state
        if state is None:
            rows = self._best_of(itertools.chain.from_iterable(map(rows_of, self._batches())))
        else:
            rows = state.all()
        found = {row_key: row.value for row_key, row in rows.items() if row.value is not None}
        if start is None:
            return {key: value for (key, _), value in found.items()}
        return {Cell(key, begins): value for (key, begins), value in found.items() if begins == start}

    # -- following --------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Take up new commits. Return whether there were any."""
        state = self._state
        head = self.delta.head(self.plan.state, None if state is None else state.head)
        if head is None:
            self._state = None
            return False
        if state is not None and state.head == head:
            return False
        try:
            taken_up = self._at(head, state)
            if state is None:  # reads were queries: they may have shown commits that came during the copy
                while (newer := self.delta.head(self.plan.state, taken_up.head)) not in {None, taken_up.head}:
                    taken_up = self._at(newer, taken_up)
            self._state = taken_up
        except SerializationError:  # a column has another type by now: an old answer would be worse than none
            self._state = None
            raise
        return True

    def _at(self, head: Head, state: State | None) -> State:
        """The table at a version: an earlier state with the changes since if they are known, otherwise a new copy."""
        followed = None
        if state is not None and self.delta.has(self.plan.state, state.head):
            try:
                followed = self._followed(state, head)
            except Exception:  # noqa: BLE001  delta-rs reads no feed in which a column changes its type
                _log.info("the changes of %s cannot be read: it is copied anew", self.plan.name, exc_info=True)
        return followed or self.copied_anew(head)

    def copied_anew(self, head: Head) -> State:
        """The whole table, in files of a bounded size. Rows stay in Arrow, so that other threads run meanwhile."""
        before = list(self.folder.iterdir())
        runs, part = list[SortedRun](), list[pa.Table]()
        for batch in self._batches(head.version):
            part.append(batch)
            if sum(table.nbytes for table in part) >= _RUN_BYTES:
                runs.append(self._written(pa.concat_tables(part)))
                part.clear()
        if part:
            runs.append(self._written(pa.concat_tables(part)))
        for file in before:  # mapped files stay readable while they are mapped
            file.unlink(missing_ok=True)
        return State(head, tuple(runs), by=self._rows.rank)

    def _followed(self, state: State, head: Head) -> State | None:
        """The state after newer commits, by the change feed; None if the table must be copied again."""
        first = state.head.version + 1
        if head.version < first or not self.delta.followable(self.plan.state, first, head.version):
            return None
        commits: dict[int, list[tuple[str, Row]]] = {}
        count = 0
        for batch in self.delta.changes(self.plan.state, first, head.version):
            kinds, versions = (batch.column(name).to_pylist() for name in ("_change_type", "_commit_version"))
            for kind, version, row in zip(kinds, versions, rows_of(self._rows.texts(batch)), strict=True):
                commits.setdefault(version, []).append((kind, row))
            count += batch.num_rows
            if count > _MANY_CHANGES:
                return None
        for version in sorted(commits):
            state = _changed(state, commits[version])
        if state.doubtful:
            asked = self._best_of(self._query(state.doubtful, head.version))
            gone = {row_key: Row(*row_key, None, None) for row_key in state.doubtful}
            state = replace(state, recent={**state.recent, **gone, **asked})
        if len(state.recent) > _RECENT_ROWS:
            if len(state.changed) >= _MOST_CHANGES:
                return None
            written = self._written(as_table(list(state.recent.values())))
            return replace(state, head=head, changed=(*state.changed, written), recent={})
        return replace(state, head=head)

    def _best_of(self, rows: Iterable[Row]) -> dict[tuple[str, int], Row]:
        return best_of(rows, self._rows.rank)

    def _written(self, rows: pa.Table) -> SortedRun:
        return SortedRun.write(self.folder / f"{next(self._numbers)}.arrow", rows)

    def _batches(self, version: int | None = None, condition: str = "true") -> Iterator[pa.Table]:
        """The rows of the table at a version, with the columns of Row."""
        for batch in self.delta.query(self.plan.state, self._rows.select(condition), version):
            rows = self._rows.texts(batch)
            yield rows.filter(pc.is_valid(rows["value"]))

    def _query(self, row_keys: Iterable[tuple[str, int]], version: int | None = None) -> Iterator[Row]:
        wanted = set(row_keys)
        keys = iter(sorted({key for key, _ in wanted}))
        while some := list(itertools.islice(keys, _KEYS)):
            for batch in self._batches(version, self._rows.condition(some)):
                yield from (row for row in rows_of(batch) if row[:2] in wanted)


@dataclass
class Follower:
    """Keeps copies fresh, each in a thread of its own."""

    every: float = 0.1
    _copies: list[LocalCopy] = field(default_factory=list, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)

    def follow(self, copy: LocalCopy) -> None:
        """Keep a copy fresh until ``close``. A table that takes long to copy delays no other one."""
        thread = threading.Thread(target=self._keep_fresh, args=(copy,), name=f"copy of {copy.plan.name}", daemon=True)
        self._copies.append(copy)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Stop, and remove the copies' files."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=5)
        for copy in self._copies:
            copy.close()

    def _keep_fresh(self, copy: LocalCopy) -> None:
        pause = self.every
        while not self._stop.wait(pause):
            try:
                copy.refresh()
                pause = self.every
            except Exception:  # noqa: BLE001  a table may be dropped or made anew at any time: try again later
                pause = min(10 * pause, _LONGEST_PAUSE)
                _log.warning("the copy of %s could not be brought up to date", copy.plan.name, exc_info=True)


def _changed(state: State, changes: Iterable[tuple[str, Row]]) -> State:
    """The state after one commit, given its changes in any order."""
    removed: dict[tuple[str, int], int] = {}
    added: dict[tuple[str, int], list[Row]] = {}
    for kind, row in changes:
        if kind in {"delete", "update_preimage"}:
            removed[row[:2]] = removed.get(row[:2], 0) + 1
        else:
            added.setdefault(row[:2], []).append(row)
    recent, doubtful = dict(state.recent), set(state.doubtful)
    for row_key in removed.keys() | added.keys():
        rows = added.get(row_key, [])
        if len(state.rows(*row_key)) != removed.get(row_key, 0) or len(rows) > 1:
            doubtful.add(row_key)
        recent[row_key] = max(rows, key=state.by) if rows else Row(*row_key, None, None)
    return replace(state, recent=recent, doubtful=frozenset(doubtful))


def _as_pair(row_key: RowKey) -> tuple[str, int]:
    return (row_key.key, row_key.start) if isinstance(row_key, Cell) else (row_key, 0)
