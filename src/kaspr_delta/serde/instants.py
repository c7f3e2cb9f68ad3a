"""Instants as whole microseconds since 1970, as Delta has them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""The time from which times are counted."""


def microseconds(moment: datetime) -> int:
    """Convert a time to microseconds. A time without a zone, as Spark collects it, is this machine's."""
    aware = moment if moment.tzinfo is not None else moment.astimezone(timezone.utc)
    return (aware - EPOCH) // timedelta(microseconds=1)


def moment_of(microseconds: int) -> datetime:
    """Convert microseconds to a datetime, as Spark takes it."""
    return EPOCH + timedelta(microseconds=microseconds)
