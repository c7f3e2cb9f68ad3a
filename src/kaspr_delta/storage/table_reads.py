"""The reads of Delta tables that pages are made of, the same behind delta-rs and behind a SQL warehouse."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kaspr_delta.spec.ddl import Type
from kaspr_delta.storage.commit_info import CommitInfo

Row = Mapping[str, Any]
"""Values by column, as Python has them: times in UTC, bytes, Decimals."""

Texts = Mapping[str, Sequence[str]]
"""By column the texts of which a row has one. Without any column all rows are meant."""

Columns = Mapping[str, Type]
"""The types of columns by their names, in their order."""


class History(Protocol):
    """The commits of a table, as far as its log reaches back."""

    @property
    def versions(self) -> range:
        """The versions that can be asked for; none where there is no table."""
        ...

    @property
    def newest_change(self) -> int | None:
        """The newest version that changed rows."""
        ...

    def commit(self, version: int) -> CommitInfo | None:
        """What the commit of a version says of itself; None where it is gone."""
        ...


@dataclass(frozen=True, slots=True)
class RowsFound:
    """How many rows there are, and the first of them."""

    count: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """How many rows differ between two versions, and the first of them, before and after. None: not there."""

    count: int
    pairs: tuple[tuple[Row | None, Row | None], ...]


class TableReads(Protocol):
    """Reads of the Delta tables of one application. A table that is not there is empty."""

    def counts(self, tables: Collection[str]) -> dict[str, int]:
        """How many rows each of the tables has. Those that cannot be read are left out."""
        ...

    def newest(
        self, table: str, order: Sequence[str], most: int | None, where: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of a system table with the greatest values in these columns, greatest first.

        ``where`` restricts them to those with these texts.
        """
        ...

    def grouped(self, table: str, columns: Sequence[str]) -> dict[tuple[str | None, ...], int]:
        """How many rows of a system table have the same texts in these columns."""
        ...

    def history(self, table: str) -> History:
        """The commits of a table."""
        ...

    def columns(self, table: str, version: int | None = None) -> dict[str, Type]:
        """The columns of a table at a version, the newest by default; none where there is no table, or version."""
        ...

    def rows(  # noqa: PLR0913, PLR0917  a SELECT has so many parts
        self, table: str, version: int | None, columns: Columns, texts: Texts, order: Sequence[str], most: int
    ) -> RowsFound | str:
        """Rows at a version in an order, or why the version cannot be read. None: those that are there now."""
        ...

    def changed_since(  # noqa: PLR0913, PLR0917
        self, table: str, version: int, columns: Columns, texts: Texts, key: Sequence[str], most: int
    ) -> RowsChanged:
        """The rows that are others in the newest version, in the order of their keys.

        Rows are told apart by the ``key``. Times of writing (``UNCOMPARED``) make no difference.
        """
        ...

    def change_feed(  # noqa: PLR0913, PLR0917
        self, table: str, version: int, columns: Columns, texts: Texts, key: Sequence[str], most: int
    ) -> list[dict[str, Any]] | str:
        """The change feed of one commit, with ``_change_type``, or why it cannot be read.

        At least the rows of the ``most`` first keys are among it.
        """
        ...
