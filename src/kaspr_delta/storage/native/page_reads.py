"""Implements PageReads by delta-rs, for tables in a folder of this machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kaspr_delta.serde.typed_values import from_columns
from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.layout import CHANGE_FEED, UNCOMPARED
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.log_files import commit_of
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.native.sql_text import literal, quoted
from kaspr_delta.storage.page_reads import Columns, History, RowsChanged, RowsFound, TextFilter


@dataclass(frozen=True, slots=True)
class NativePageReads:
    """Implements PageReads."""

    delta: DeltaRs

    def counts(self, tables: Collection[str]) -> dict[str, int | str]:
        here = (table for table in tables if self.delta.has_folder(table))
        return {table: readable(f"'{table}'", partial(self.delta.count, table)) for table in here}

    def newest(
        self, table: str, order: Sequence[str], most: int | None, where: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        condition = _condition({name: (text,) for name, text in (where or {}).items()})
        greatest = ", ".join(f"{quoted(name)} DESC" for name in order)
        limit = "" if most is None else f" LIMIT {most}"
        return self.delta.rows(table, f"SELECT * FROM t WHERE {condition} ORDER BY {greatest}{limit}")

    def grouped(self, table: str, columns: Sequence[str]) -> dict[tuple[str | None, ...], int]:
        names = ", ".join(map(quoted, columns))
        grouped = f"SELECT {names}, count(*) AS many FROM t GROUP BY {names}"
        return {tuple(row[name] for name in columns): row["many"] for row in self.delta.rows(table, grouped)}

    def history(self, table: str) -> History:
        if not self.delta.has_folder(table):
            return History(range(0), lambda _: None)
        return History(self.delta.versions(table), partial(commit_of, self.delta.folder(table)))

    def columns(self, table: str, version: int | None = None) -> dict[str, Type]:
        here = self.delta.has_folder(table)
        return {column.name: column.type for column in (self.delta.types(table, version) if here else None) or ()}

    def rows(  # noqa: PLR0913, PLR0917  as PageReads has it
        self, table: str, version: int | None, columns: Columns, texts: TextFilter, order: Sequence[str], most: int
    ) -> RowsFound | str:
        if version is not None and not self.delta.is_whole(table, version):
            return "its files are gone: VACUUM has removed them"
        wanted, names = _condition(texts), ", ".join(map(quoted, columns))
        (counted,) = self.delta.rows(table, f"SELECT count(*) AS many FROM t WHERE {wanted}", version)
        ordered = f"ORDER BY {', '.join(map(quoted, order))}" if order else ""
        found = f"SELECT {names} FROM t WHERE {wanted} {ordered} LIMIT {most}"
        return RowsFound(counted["many"], tuple(_seen(columns, row) for row in self.delta.rows(table, found, version)))

    def changed_since(  # noqa: PLR0913, PLR0917
        self, table: str, version: int, columns: Columns, texts: TextFilter, key: Sequence[str], most: int
    ) -> RowsChanged:
        wanted = _condition(texts)
        values = [name for name in columns if name not in {*key, *UNCOMPARED}]
        both = ", ".join(
            f"{of}.{quoted(name)} AS {quoted(f'{side}_{name}')}"
            for name in columns
            for of, side in (("t", "then"), ("now", "now"))
        )
        same_key = " AND ".join(f"t.{quoted(name)} = now.{quoted(name)}" for name in key)
        differs = (f"(t.{quoted(name)} IS DISTINCT FROM now.{quoted(name)})" for name in values)
        order = ", ".join(f"coalesce({quoted(f'then_{name}')}, {quoted(f'now_{name}')})" for name in key)
        found = (
            f"SELECT {both}, t.there AS is_then, now.there AS is_now"
            f" FROM (SELECT *, true AS there FROM t WHERE {wanted}) t"
            f" FULL OUTER JOIN (SELECT *, true AS there FROM now WHERE {wanted}) now ON {same_key}"
            f" WHERE t.there IS NULL OR now.there IS NULL OR {' OR '.join(differs) or 'false'}"
        )
        (counted,) = self.delta.rows(table, f"SELECT count(*) AS many FROM ({found})", version)
        rows = self.delta.rows(table, f"{found} ORDER BY {order} LIMIT {most}", version)
        pairs = ((_side(row, "then", columns), _side(row, "now", columns)) for row in rows)
        return RowsChanged(counted["many"], tuple(pairs))

    def change_feed(  # noqa: PLR0913, PLR0917
        self,
        table: str,
        version: int,
        columns: Columns,
        texts: TextFilter,
        key: Sequence[str],  # noqa: ARG002
        most: int,  # noqa: ARG002
    ) -> list[dict[str, Any]] | str:
        if self.delta.property(table, CHANGE_FEED, version) != "true":
            return "the change data feed was off"
        if not self.delta.followable(table, version, version):
            return "only Spark reads them: rows were removed by deletion vectors, or the table has column mapping"
        feed = (row for batch in self.delta.changes(table, version, version) for row in batch.to_pylist())
        wanted = (row for row in feed if all(row[name] in among for name, among in texts.items()))
        return [{**_seen(columns, row), "_change_type": row["_change_type"]} for row in wanted]


def _condition(texts: TextFilter) -> str:
    tests = (f"{quoted(name)} IN ({', '.join(map(literal, among))})" for name, among in texts.items())
    return " AND ".join(tests) or "true"


def _side(row: Mapping[str, Any], side: str, columns: Columns) -> dict[str, Any] | None:
    """One side of a compared row; None if it did not exist."""
    return _seen(columns, row, f"{side}_") if row[f"is_{side}"] else None


def _seen(columns: Columns, row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The Python values of a row by column; ``before`` is a prefix of the names in the row."""
    return {name: from_columns(kind, row.get(f"{before}{name}")) for name, kind in columns.items()}
