"""Rows and records on a page: filtered, sorted and in parts, as its address asks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import cached_property
from typing import Any, get_args
from urllib.parse import urlencode

from kaspr_delta.serde.unfolded import cell_text, parsed, unfolded
from kaspr_delta.storage.page_reads import RowsFound
from kaspr_delta.web.parts.download import Format

SIZE = 20
"""Rows on a page."""

MOST_ROWS = 5_000
"""The rows that are read, in their order, to be filtered by a column or sorted."""

MOST_DOWNLOADED = 50_000

_TEST = re.compile(r"(?P<sign>>=|<=|=|>|<)\s*(?P<than>.*)", re.DOTALL)


@dataclass(frozen=True)
class Asked:
    """The rows that an address asks for.

    ``find`` is a text in any column, ``test`` one of the ``column``, or a comparison such as ``>= 10``. ``sort`` names
    a column; after ``-`` the greatest come first. ``query`` is the whole query of the address.
    """

    query: Mapping[str, str]

    @property
    def find(self) -> str:
        return self.query.get("find", "").strip()

    @property
    def column(self) -> str:
        return self.query.get("column", "")

    @property
    def test(self) -> str:
        return self.query.get("test", "").strip() if self.column else ""

    @property
    def sort(self) -> str:
        return self.query.get("sort", "")

    @property
    def format(self) -> Format | None:
        """The format of a download; None for a page."""
        return next((one for one in get_args(Format) if one == self.query.get("format")), None)

    @property
    def key(self) -> str:
        return self.query.get("key", "").strip()

    def number(self, name: str, otherwise: int) -> int:
        """A whole number in the query."""
        text = self.query.get(name, "")
        return int(text) if text.isdecimal() and len(text) < len(str(2**63)) else otherwise

    @property
    def page(self) -> int:
        """The number of the page, counted from 1."""
        return min(max(1, self.number("page", 1)), MOST_ROWS // SIZE)

    @property
    def reach(self) -> int:
        """The number of rows to read, of which the page or the download shows some."""
        if self.format is not None:
            return MOST_DOWNLOADED
        return MOST_ROWS if self.find or self.test or self.sort else self.page * SIZE

    def link(self, **changes: str | int) -> str:
        """The query of an address that asks for something else, too; an empty text is left out. It asks for page 1."""
        query = {**self.query, "page": "", "format": "", **changes}
        return "?" + urlencode({name: value for name, value in query.items() if value not in {"", None}})

    def others(self, *names: str) -> dict[str, str]:
        """The parts of the query but these and the page: a form keeps them."""
        left_out = {*names, "page", "format"}
        return {name: value for name, value in self.query.items() if value and name not in left_out}


@dataclass(frozen=True)
class Listing:
    """Rows that match, with unfolded columns. ``found`` were read of a table that has ``count`` like them."""

    asked: Asked
    found: list[dict[str, Any]]
    count: int

    @cached_property
    def _unfolded(self) -> list[dict[str, Any]]:
        return unfolded(self.found)

    @cached_property
    def all(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The rows that match, sorted, each unfolded and as it is."""
        rows = list(zip(self._unfolded, self.found, strict=True))
        if self.asked.find:
            rows = [pair for pair in rows if any(_has(self.asked.find, cell) for cell in pair[0].values())]
        if self.asked.test:
            passes = _test(self.asked.test)
            rows = [pair for pair in rows if passes(pair[0].get(self.asked.column))]
        column = self.asked.sort.removeprefix("-")
        if column in self.columns:
            with_cell = [pair for pair in rows if pair[0][column] is not None]
            with_cell.sort(key=lambda pair: _order(pair[0][column]), reverse=self.asked.sort.startswith("-"))
            rows = [*with_cell, *(pair for pair in rows if pair[0][column] is None)]
        return rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(next(iter(self._unfolded), {}))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the page."""
        start = self.first - 1
        return [row for row, _ in self.all[start : start + SIZE]]

    @property
    def first(self) -> int:
        """The number of the first row of the page."""
        return (self.page - 1) * SIZE + 1

    @property
    def is_whole(self) -> bool:
        """Whether all rows that may match were read."""
        return len(self.found) >= self.count

    @property
    def matching(self) -> int:
        """The number of rows that match, among those that were read if these were filtered here."""
        return len(self.all) if self.is_whole or self.asked.find or self.asked.test else self.count

    @property
    def page(self) -> int:
        """The number of the page: the last one if there is none with the number that was asked for."""
        return max(1, min(self.asked.page, self.pages))

    @property
    def pages(self) -> int:
        """The number of pages that can be shown."""
        return -(-min(self.matching, MOST_ROWS) // SIZE)


def listing(asked: Asked, found: RowsFound, json: Collection[str] = ()) -> Listing:
    """The rows found for a page. Columns named by ``json`` hold JSON text."""
    return Listing(asked, parsed(found.rows, json), found.count)


def _has(find: str, cell: Any) -> bool:
    """Whether a cell contains a text, in capitals or not. Times are not searched, as ``RowFilter`` says."""
    return not isinstance(cell, datetime) and find.lower() in cell_text(cell).lower()


def _order(cell: Any) -> tuple[int, Any]:
    """The sort key of a cell: numbers come before texts."""
    return (0, cell) if _is_number(cell) else (1, cell_text(cell))


def _test(test: str) -> Callable[[Any], bool]:
    compared = _TEST.fullmatch(test)
    if compared is None:
        return lambda cell: test.lower() in cell_text(cell).lower()
    sign, than = compared["sign"], compared["than"].strip()
    number = Decimal(than) if _NUMBER.fullmatch(than) else None
    moment = moment_of(than)

    def passes(cell: Any) -> bool:
        if cell is None:
            return False
        if number is not None and _is_number(cell):
            return _SIGNS[sign](Decimal(str(cell)), number)
        if moment is not None and isinstance(cell, datetime):
            return _SIGNS[sign](_in_utc(cell), moment)
        return _SIGNS[sign](cell_text(cell), than)

    return passes


def moment_of(text: str) -> datetime | None:
    """The moment that a text names, in UTC unless it has a zone; None for another text."""
    try:
        return _in_utc(datetime.fromisoformat(text.replace("Z", "+00:00")))
    except (ValueError, OverflowError):
        return None


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _is_number(cell: Any) -> bool:
    """Whether a cell is a number that can be ordered."""
    if isinstance(cell, int):
        return not isinstance(cell, bool)
    return isinstance(cell, float | Decimal) and math.isfinite(cell)


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
}
