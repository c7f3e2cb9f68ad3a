"""The ``timestamp`` of a row: the time of the event that wrote it, or the time at which it was written without one.

The time of an event is a whole millisecond. The time of a write without an event is not, so that the two differ.
"""

from __future__ import annotations

from datetime import datetime, timezone

from pyspark.sql import Column
from pyspark.sql import functions as F


def event_time(timestamp: Column) -> Column:
    """The time of the event that wrote a row; NULL if no event did."""
    return F.when(F.unix_micros(timestamp) % 1_000 == 0, timestamp)


def write_time_in_spark() -> Column:
    """The present time, for rows that no event writes."""
    return F.timestamp_micros(F.unix_millis(F.current_timestamp()) * 1_000 + 1)


def write_time() -> datetime:
    """The same on the driver."""
    now = datetime.now(timezone.utc)
    return now.replace(microsecond=now.microsecond // 1_000 * 1_000 + 1)
