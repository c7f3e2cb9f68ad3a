"""A row of a file, whichever format it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from kaspr_delta.errors import UsageError

# So many problems of a file are shown; of the others the number.
_SHOWN_PROBLEMS = 10


ColumnsCheck: TypeAlias = Callable[[Sequence[str]], None]
"""Is called with the names of a file's columns before its first row, also where it has no row. May raise UsageError."""


class PartitionText(str):
    """The value of a column that stands in the name of a folder of Parquet files."""

    __slots__ = ()


class FileRow(NamedTuple):
    """A row of a file.

    ``place`` is the file with the line, or with the number of the row. ``cells`` are the values by column; a line of
    JSON may also be another value. Cells of CSV are text, None for an empty field. ``text`` is the row as it stands in
    the file, if that is text. A row with a ``problem`` has no cells. ``exact`` says that ``export`` wrote the file.
    """

    place: str
    cells: Any
    text: str | None = None
    problem: str | None = None
    exact: bool = False


def any_columns(names: Sequence[str]) -> None:
    """The check that lets a file have any columns."""


def without_problems(rows: Iterable[FileRow]) -> Iterator[FileRow]:
    """The rows. Raises UsageError at the end if some have a problem: it names the first ones, each with its place."""
    problems: list[str] = []
    found = 0
    for row in rows:
        if row.problem is None:
            yield row
            continue
        found += 1
        if len(problems) < _SHOWN_PROBLEMS:
            problems.append(f"{row.place}: {row.problem}")
    if found > len(problems):
        problems.append(f"and {found - len(problems)} more")
    if problems:
        raise UsageError("\n".join(problems))


def first_row(rows: Iterator[FileRow]) -> tuple[FileRow | None, Iterator[FileRow]]:
    """The first row that has cells, if there is one, and all rows."""
    before = list[FileRow]()
    for row in rows:
        before.append(row)
        if row.cells is not None:
            return row, chain(before, rows)
    return None, iter(before)
