"""What a reader of a join's channel makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def folded(records: Iterable[Mapping[str, Any]]) -> dict[Any, Any]:
    """The last value of every key, without those whose last record is a tombstone."""
    last = {record["key"]: record["value"] for record in records}
    return {key: value for key, value in last.items() if value is not None}


def counted(records: Iterable[Mapping[str, Any]], *names: str) -> Counter[str]:
    """How often there are records with the same fields of these names."""
    return Counter(repr([record[name] for name in names]) for record in records)
