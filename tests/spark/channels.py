"""Summaries of records: their values, the last value of each key, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kaspr_delta import Application


def values_of(app: Application, topic: str) -> list[Any]:
    """The values of a topic's records, in order."""
    return [record["value"] for record in app.topic(topic).records()]


def last_values(records: Iterable[Mapping[str, Any]]) -> dict[Any, Any]:
    """The last value of every key. A key whose last record is a tombstone is left out."""
    last = {record["key"]: record["value"] for record in records}
    return {key: value for key, value in last.items() if value is not None}


def counted(records: Iterable[Mapping[str, Any]], *names: str) -> Counter[str]:
    """The number of records for each combination of values of the named fields."""
    return Counter(repr([record[name] for name in names]) for record in records)
