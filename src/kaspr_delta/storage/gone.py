"""Errors for tables, columns and checkpoint folders that were removed while in use."""

from __future__ import annotations

import re
from pathlib import Path

from kaspr_delta.errors import SetupError

_TABLE = re.compile(
    r"(?:file:)?(/[^\s\"']+)/_delta_log does not exist|DELTA_PATH_DOES_NOT_EXIST\S* (/\S+) doesn't exist"
)
_COLUMN = re.compile(r"UNRESOLVED_COLUMN\S* A column, variable, or function parameter with name (`\S+`)")
_CHECKPOINT = re.compile(r"(?:file:)?(/\S+/_kaspr/checkpoints/\S+) does not exist")


def table_gone(location: Path) -> SetupError:
    """The error for a table that was removed."""
    return SetupError(
        f"the table {location.name} is gone: {location} was removed while it was in use. Run again, which creates it"
        " empty; then rebuild the resources that ask for it"
    )


def what_is_gone(error: Exception) -> SetupError | None:
    """The error that names the table, column or checkpoint that Spark misses; None for other errors."""
    text = str(error)
    if table := _TABLE.search(text):
        return table_gone(Path(re.sub("^/+", "/", table[1] or table[2])))
    if column := _COLUMN.search(text):
        return SetupError(
            f"column {column[1]} of a table it reads is gone since this run began: it was dropped, or the table was"
            " restored to a version without it. Run again: the next error names the remedy"
        )
    if checkpoint := _CHECKPOINT.search(text):
        return SetupError(f"its checkpoint is gone: {checkpoint[1]} was removed while it was in use. Run again")
    return None
