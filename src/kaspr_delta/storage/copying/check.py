"""The check of a copy: the same files, the same versions, and as many rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from kaspr_delta.errors import SetupError
from kaspr_delta.storage.copying.contents import Contents, table_of
from kaspr_delta.storage.copying.transfer import changed
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.readable import readable


@dataclass(frozen=True)
class Checked:
    """The numbers of a copy of a schema: of its files, bytes and commits, and by table those of its rows.

    ``uncounted`` has the reason for each table whose rows cannot be counted without Spark.
    """

    files: int
    bytes: int
    commits: int
    rows: Mapping[str, int]
    uncounted: Mapping[str, str]


def check_files(before: Contents, source: Contents, target: Contents) -> None:
    """Compare names and sizes of files, and the newest versions: of the source before and after, and of the copy.

    Raises SetupError.
    """
    differing = _differing(before, source)
    if differing:
        raise changed(table_of(min(differing)))
    differing = _differing(source, target)
    if differing or source.newest != target.newest:
        raise SetupError(f"the copy differs in {min(differing, default='a version')}: run the command again")


def check_rows(source: DeltaRs, target: DeltaRs, contents: Contents) -> Checked:
    """Count the rows of each table, of its newest version, by both logs. Raises SetupError if they differ."""
    rows: dict[str, int] = {}
    uncounted: dict[str, str] = {}
    for table, version in contents.newest.items():
        here = readable(f"'{table}'", partial(source.count, table, version))
        there = readable(f"'{table}'", partial(target.count, table, version))
        if isinstance(there, str) or isinstance(here, str):
            uncounted[table] = str(there)
        elif here != there:
            raise SetupError(f"'{table}' has {here} rows in the source and {there} in the copy: run the command again")
        else:
            rows[table] = there
    return Checked(len(contents.files), contents.bytes, len(contents.commits), rows, uncounted)


def _differing(one: Contents, other: Contents) -> set[str]:
    """The names of files that only one has, or that have another size."""
    sizes = ({(name, file.size) for name, file in contents.files.items()} for contents in (one, other))
    return {name for name, _ in next(sizes) ^ next(sizes)}
