"""Deletes old data files: with 10 M rows each MERGE leaves gigabytes of them."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable


def forget_the_past(table: Path | str) -> None:
    """Delete the files that the newest version of a Delta table no longer has. Older versions become unreadable."""
    place = Path(table)
    # A vacuum would commit to the table. Its dry run names files that commits removed, not files still being written.
    for file in DeltaTable(str(place)).vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False):
        (place / file).unlink(missing_ok=True)
