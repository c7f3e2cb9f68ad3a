"""The contract for reads that pages need; delta-rs and a SQL warehouse both keep it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.commit_info import CommitInfo

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
class RowsFound:
    """The number of rows, and the first of them."""

    count: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """The number of rows that differ between two versions, and the first pairs before and after. None: no row."""

    count: int
    pairs: tuple[tuple[Row | None, Row | None], ...]


class PageReads(Protocol):
    """Reads of the Delta tables of one application. A table that does not exist is empty."""

    def counts(self, tables: Collection[str]) -> Mapping[str, int | str]:
        """The number of rows by table, or the reason why it cannot be read. Tables elsewhere are left out."""

    def newest(
        self, table: str, order: Sequence[str], most: int | None, where: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of a system table or a topic with the greatest values in these columns, greatest first.

        ``where`` restricts them to those with these texts.
        """

    def grouped(self, table: str, columns: Sequence[str]) -> dict[tuple[str | None, ...], int]:
        """The number of rows of a system table by their texts in these columns."""

    def history(self, table: str) -> History:
        """The commits of a table."""

    def columns(self, table: str, version: int | None = None) -> dict[str, Type]:
        """The columns of a table at a version, the newest by default; none where there is no table, or version."""

    def rows(  # noqa: PLR0913, PLR0917  a SELECT has so many parts
        self, table: str, version: int | None, columns: Columns, texts: TextFilter, order: Sequence[str], most: int
    ) -> RowsFound | str:
        """Ordered rows at a version (None: the newest), or the reason why the version cannot be read."""

    def changed_since(  # noqa: PLR0913, PLR0917
        self, table: str, version: int, columns: Columns, texts: TextFilter, key: Sequence[str], most: int
    ) -> RowsChanged:
        """The rows that differ in the newest version, in the order of their keys.

        Rows are identified by the ``key``. Times of writing (``UNCOMPARED``) make no difference.
        """

    def change_feed(  # noqa: PLR0913, PLR0917
        self, table: str, version: int, columns: Columns, texts: TextFilter, key: Sequence[str], most: int
    ) -> list[dict[str, Any]] | str:
        """The change feed of one commit, with ``_change_type``, or the reason why it cannot be read.

        At least the rows of the ``most`` first keys are among it.
        """
