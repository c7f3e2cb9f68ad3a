"""The records of topics and channels in their order by delta-rs: tables in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from kaspr_delta.storage.arrow_types import without_views
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.log_files import commit_of

# The commits that are read together have about so many rows.
_ROWS = 5_000


class OnlySparkReadsError(Exception):
    """delta-rs does not read the change feed of these commits, see ``DeltaRs.followable``."""


def records_appended(delta: DeltaRs, table: str, first: int = 0, *, newest_first: bool = False) -> Iterator[pa.Table]:
    """The rows that were appended from a version on, some commits at a time, in order, or the newest commits first.

    They have ``_commit_version``; the rows of each part are ordered by it and ``seq``. Commits whose feed is
    gone are left out. Raises OnlySparkReadsError.
    """
    import pyarrow.compute as pc  # the web side, and commands that read no records, do without

    versions = delta.fed_versions(table)
    versions = range(max(first, versions.start), versions.stop)
    for part in _parts(delta, table, reversed(versions) if newest_first else iter(versions)):
        if not delta.followable(table, part.start, part.stop - 1):
            raise OnlySparkReadsError
        found = [
            in_plain_texts(pa.Table.from_batches([batch])) for batch in delta.changes(table, part.start, part.stop - 1)
        ]
        if found:
            rows = pa.concat_tables(found)
            rows = rows.filter(pc.equal(rows["_change_type"], "insert"))
            yield rows.sort_by([("_commit_version", "ascending"), ("seq", "ascending")])


def in_plain_texts(rows: pa.Table) -> pa.Table:
    """Rows of a change feed without views: those of removed commits have none."""
    return rows.cast(pa.schema(map(without_views, rows.schema)))


def _parts(delta: DeltaRs, table: str, versions: Iterator[int]) -> Iterator[range]:
    """Consecutive versions whose commits have about as many rows as are read together."""
    folder = delta.folder(table)
    for version in versions:
        last, rows = version, 0
        for one in chain([version], versions):
            last, commit = one, commit_of(folder, one)
            rows += 0 if commit is None else commit.rows
            if rows >= _ROWS:
                break
        yield range(min(version, last), max(version, last) + 1)
