"""Spark's errors about what is gone or has changed while it was read, as sentences.

Delta's own messages are long and do not name the remedy.
"""

from __future__ import annotations

import re

from kaspr_delta.errors import SetupError

_TABLE = re.compile(
    r"(?:file:)?((?:s3a:/)?/[^\s\"']+)/_delta_log does not exist"
    r"|DELTA_PATH_DOES_NOT_EXIST\S* ((?:s3a:/)?/\S+) doesn't exist"
)
_COLUMN = re.compile(r"UNRESOLVED_COLUMN\S* A column, variable, or function parameter with name (`\S+`)")
_CHECKPOINT = re.compile(r"(?:file:)?((?:s3a:/)?/\S+/_kaspr/checkpoints/\S+) does not exist")

_FEED_OFF = (
    "the change data feed of a table it reads was off for some versions. Turn it on first: ALTER TABLE ... SET"
    " TBLPROPERTIES (delta.enableChangeDataFeed = true)"
)
TABLE_REPLACED = "a table it reads was replaced by another one of the same name"
_REMOVED = "changes that it had not read yet are gone from a table it reads (VACUUM, or a retention that is too short)"
# Parts of Delta's messages, and the reason that each means. The first match counts.
_REASONS = {
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE": TABLE_REPLACED,
    "DELTA_MISSING_CHANGE_DATA": _FEED_OFF,
    "DELTA_CHANGE_TABLE_FEED_DISABLED": _FEED_OFF,
    "FILE_NOT_EXIST": _REMOVED,
    "FileNotFoundException": _REMOVED,
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION": _REMOVED,
    "DELTA_VERSIONS_NOT_CONTIGUOUS": _REMOVED,
    "DELTA_VERSION_NOT_FOUND": _REMOVED,
    "DELTA_LOG_FILE_NOT_FOUND": _REMOVED,
    "DELTA_TRUNCATED_TRANSACTION_LOG": _REMOVED,
    "failOnDataLoss": _REMOVED,
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE": "columns of a table it reads were renamed, dropped or retyped",
    "DELTA_SCHEMA_CHANGED": "columns of a table it reads have changed",
}


def table_gone(location: str) -> SetupError:
    """The error for a table that was removed."""
    return SetupError(
        f"the table {location.rpartition('/')[2]} is gone: {location} was removed while it was in use. Run again, which"
        " creates it empty; then rebuild the resources that ask for it"
    )


def what_is_gone(error: Exception) -> SetupError | None:
    """The error that names the table, column or checkpoint that Spark misses; None for other errors."""
    text = str(error)
    if table := _TABLE.search(text):
        return table_gone(re.sub("^/+", "/", table[1] or table[2]))
    if column := _COLUMN.search(text):
        return SetupError(
            f"column {column[1]} of a table it reads is gone since this run began: it was dropped, or the table was"
            " restored to a version without it. Run again: the next error names the remedy"
        )
    if checkpoint := _CHECKPOINT.search(text):
        return SetupError(f"its checkpoint is gone: {checkpoint[1]} was removed while it was in use. Run again")
    return None


def columns_were_added(error: Exception) -> bool:
    """Whether a table got columns while it was read: the stream stops once, and continues after a restart."""
    return "DELTA_SCHEMA_CHANGED" in str(error)


def is_gap(error: Exception) -> bool:
    """Whether unread changes are gone from a table that still exists."""
    return why_the_feed_ends(error) == _REMOVED


def why_the_feed_ends(error: Exception) -> str | None:
    """The reason why a source cannot be read further; None for errors of other kinds."""
    text = str(error)
    return next((reason for sign, reason in _REASONS.items() if sign in text), None)
