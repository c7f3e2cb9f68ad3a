"""The reads that pages need, by SQL that delta-rs and a SQL warehouse both execute."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol

from kaspr_delta.errors import SetupError, first_line
from kaspr_delta.spec.ddl import Column, Type, quoted
from kaspr_delta.storage.commit_info import CommitInfo
from kaspr_delta.storage.dialect import SPARK, Dialect
from kaspr_delta.storage.layout import PAIR, UNCOMPARED
from kaspr_delta.storage.spark.sql_text import struct_of

NOT_SHOWN = ("_change_type", "_commit_", PAIR)
"""Columns that only a change feed has, and the column in which a result keeps the pair that it selects from."""

_COUNT = Type("BIGINT")

Row = Mapping[str, Any]
"""Python values by column: times in UTC, bytes, Decimals."""

TextFilter = Mapping[str, Sequence[str]]
"""Texts by column. A row matches if it has one of them in each column; without columns every row matches."""

Columns = Mapping[str, Type]
"""The types of columns by their names, in their order."""


@dataclass(frozen=True, slots=True)
class History:
    """The commits of a table, as far as its log reaches back.

    ``versions`` are in the log, though files of old ones may be gone; without a table there are none. ``commit`` gives
    the commit of a version, and None where it is gone from the log.
    """

    versions: range
    commit: Callable[[int], CommitInfo | None]

    @property
    def newest_change(self) -> int | None:
        """The newest version that changed rows."""
        changed = (version for version in reversed(self.versions) if (made := self.commit(version)) and made.rows)
        return next(changed, None)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows to read: those that fulfil all of these conditions, or all rows.

    ``find``: a text that one of the columns contains, in capitals or not; times are not searched, and no row is left
    out unless ``is_found_by_sql``. ``keys``: the bytes that the column ``key`` may have. ``since`` and ``until``: the
    first and the last moment in the column ``timestamp``.
    """

    texts: TextFilter = field(default_factory=dict)
    find: str = ""
    keys: Sequence[bytes] = ()
    since: datetime | None = None
    until: datetime | None = None

    def is_found_by_sql(self, columns: Columns) -> bool:
        """Whether SQL searches these columns for ``find``: not in nested columns or bytes, nor for escaped letters."""
        escaped = not self.find.isprintable() or any(letter in self.find for letter in '"\\')
        return not escaped and not any(
            kind.inner or kind.fields or kind.name in _UNSEARCHED for kind in columns.values()
        )


_UNSEARCHED = ("BINARY", "VARIANT")


@dataclass(frozen=True, slots=True)
class RowsFound:
    """The number of rows, and the first of them."""

    count: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """The number of rows that differ between two versions, and the first pairs before and after. None: no row."""

    count: int
    pairs: tuple[tuple[Row | None, Row | None], ...]


class UnreadableError(SetupError):
    """The rows of a version cannot be read: its files are gone, or a grant is missing."""

    @property
    def reason(self) -> str:
        """The reason as one line."""
        return first_line(self)[:300].rstrip(".")


class RowReads(Protocol):
    """Reads of the rows of Delta tables by key. A table that does not exist is empty."""

    dialect: ClassVar[Dialect] = SPARK

    def named(self, table: str, version: int | None = None) -> str:
        """The table at a version, the newest by default, in the SQL of ``selected``."""

    def selected(self, table: str, version: int | None, columns: Columns, sql: str) -> list[dict[str, Any]]:
        """The rows of a SELECT with these columns. Raises UnreadableError if the version cannot be read."""

    def columns(self, table: str, version: int | None = None) -> dict[str, Type]:
        """The columns of a table at a version, the newest by default; none where there is no table, or version."""

    def rows(  # noqa: PLR0913, PLR0917
        self,
        table: str,
        version: int | None,
        columns: Columns,
        where: RowFilter,
        order: Sequence[str],
        most: int,
        *,
        newest: bool = False,
    ) -> RowsFound | str:
        """Ordered rows at a version (None: the newest), or the reason why the version cannot be read.

        If ``newest``, the greatest come first.
        """
        rows = f"{self.named(table, version)} WHERE {' AND '.join(self._conditions(columns, where))}"
        down = " DESC" if newest else ""
        ordered = f" ORDER BY {', '.join(f'{quoted(name)}{down}' for name in order)}" if order else ""
        counted = f"(SELECT count(*) FROM {rows}) AS many"
        sql = f"SELECT {counted}, {self._struct(columns)} AS one FROM {rows}{ordered} LIMIT {most}"
        try:
            found = self.selected(table, version, {"many": _COUNT, "one": _struct_type(columns)}, sql)
        except UnreadableError as error:
            return error.reason
        return RowsFound(_counted(found), tuple(row["one"] for row in found))

    def _conditions(self, columns: Columns, where: RowFilter) -> Iterator[str]:
        yield self._condition(where.texts)
        if where.find and where.is_found_by_sql(columns):
            searched = (quoted(name) for name, kind in columns.items() if not kind.name.startswith("TIMESTAMP"))
            text = self.dialect.text(where.find.lower())
            found = " OR ".join(f"instr(lower(CAST({name} AS STRING)), {text}) > 0" for name in searched)
            yield f"({found or 'false'})"
        if where.keys:
            keys = ", ".join(map(self.dialect.binary, where.keys))
            yield f"`key` IN ({keys})"
        if where.since is not None:
            yield f"`timestamp` >= {self.dialect.moment(where.since)}"
        if where.until is not None:
            yield f"`timestamp` <= {self.dialect.moment(where.until)}"

    def _condition(self, texts: TextFilter) -> str:
        tests = (f"{quoted(name)} IN {self.dialect.texts(among)}" for name, among in texts.items())
        return " AND ".join(tests) or "true"

    def _struct(self, columns: Iterable[str]) -> str:
        return struct_of(columns, self.dialect)


class PageReads(RowReads, Protocol):
    """Reads of all Delta tables of one application by SQL. A table that does not exist is empty."""

    @staticmethod
    def comparable(struct: str) -> str:
        """The SQL for a struct in a form that can be compared."""
        return struct

    def counts(self, tables: Collection[str]) -> Mapping[str, int | str]:
        """The number of rows by table, or the reason why it cannot be read. Tables elsewhere are left out."""

    def tables(self) -> Sequence[str]:
        """All Delta tables of the application's schemas, internal ones and those of others among them."""

    def history(self, table: str) -> History:
        """The commits of a table."""

    def change_feed(  # noqa: PLR0913, PLR0917  a SELECT has so many parts
        self, table: str, version: int, columns: Columns, texts: TextFilter, key: Sequence[str], most: int
    ) -> list[dict[str, Any]] | str:
        """The change feed of one commit, with ``_change_type``, or the reason why it cannot be read.

        At least the rows of the ``most`` first keys are among it.
        """

    def changed_since(  # noqa: PLR0913, PLR0917
        self, table: str, version: int, columns: Columns, texts: TextFilter, key: Sequence[str], most: int
    ) -> RowsChanged:
        """The rows that differ in the newest version, in the order of their keys.

        Rows are identified by the ``key``. Times of writing (``UNCOMPARED``) make no difference.
        """
        values = [name for name in columns if name not in {*key, *UNCOMPARED}]
        compared = self.comparable(self._struct(values)) if values else "''"
        keys = {f"key{number}": quoted(name) for number, name in enumerate(key)}
        named = "".join(f", {name} AS {alias}" for alias, name in keys.items())
        side = f"SELECT {self._struct(columns)} AS one, {compared} AS compared{named} FROM"
        then, now = (f"({side} {self.named(table, at)} WHERE {self._condition(texts)})" for at in (version, None))
        same_key = " AND ".join(f"was.{alias} = is_now.{alias}" for alias in keys)
        order = ", ".join(f"coalesce(was.{alias}, is_now.{alias}) AS {alias}" for alias in keys)
        changed = (
            f"SELECT was.one AS before, is_now.one AS after, {order}"
            f" FROM {then} AS was FULL OUTER JOIN {now} AS is_now ON {same_key}"
            " WHERE was.compared IS DISTINCT FROM is_now.compared"
        )
        sql = (
            f"WITH changed AS ({changed}) SELECT (SELECT count(*) FROM changed) AS many, before, after"
            f" FROM changed ORDER BY {', '.join(keys)} LIMIT {most}"
        )
        row = _struct_type(columns)
        found = self.selected(table, version, {"many": _COUNT, "before": row, "after": row}, sql)
        return RowsChanged(_counted(found), tuple((row["before"], row["after"]) for row in found))


def _struct_type(columns: Columns) -> Type:
    return Type("STRUCT", fields=tuple(Column(name, kind) for name, kind in columns.items()))


def _counted(found: Sequence[Mapping[str, Any]]) -> int:
    """The number of rows, which each row of an answer has."""
    return found[0]["many"] if found else 0
