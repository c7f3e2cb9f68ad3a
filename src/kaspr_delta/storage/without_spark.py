"""Tables on this machine's disk, read without Spark: for what must answer at once, and does without where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def rows_on_disk(location: Path, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Columns of a small table. Raises ImportError without the package deltalake (extra ``serve``), OSError and others.

    What delta-rs raises depends on what is wrong: whoever calls must do without the rows in any case.
    """
    from deltalake import DeltaTable

    rows: list[dict[str, Any]] = DeltaTable(location).to_pyarrow_table(columns=list(columns)).to_pylist()
    return rows
