"""Parse the arguments of ``put``, ``delete`` and ``produce``. Ambiguous arguments are refused."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kaspr_delta.api.records import FIELDS
from kaspr_delta.errors import UsageError

_RECORD = {"key", "value"}
_TEXT = (str, bytes, bytearray)


def rows_given(rows: Mapping[Any, Any] | Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The rows of ``put`` as pairs of key and value.

    They are given as a mapping, or as an iterable of pairs, or of records with exactly ``key`` and ``value``. Raises
    UsageError for anything else, naming the item, and for a mapping that looks like one record.
    """
    if isinstance(rows, Mapping):
        if _is_record(rows):
            shown = reprlib.repr(dict(rows))
            msg = f"{shown} may be one record, or two rows with the keys 'key' and 'value': write put([{shown}])"
            raise UsageError(f"{msg} for the record, or put([('key', …), ('value', …)]) for the two rows")
        yield from rows.items()
        return
    if isinstance(rows, _TEXT) or not isinstance(rows, Iterable):
        raise UsageError(
            f"put takes rows, not {reprlib.repr(rows)}: write put({{key: value}}) or put([(key, value), …])"
        )
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Mapping) and set(row) == _RECORD:
            yield row["key"], row["value"]
        elif isinstance(row, Sequence) and not isinstance(row, _TEXT) and len(row) == len(_RECORD):
            yield row[0], row[1]
        else:
            msg = f"row {number} of put, {reprlib.repr(row)}, is neither a pair (key, value) nor a record"
            raise UsageError(f"{msg} {{'key': …, 'value': …}} without further fields")


def keys_given(keys: Any) -> list[Any]:
    """The keys of ``delete``: one key, or an iterable of keys. Text, bytes, a tuple or a mapping is one key.

    Raises UsageError for a key that looks like a record.
    """
    several = isinstance(keys, Iterable) and not isinstance(keys, (*_TEXT, tuple, Mapping))
    wanted = list(keys) if several else [keys]
    for key in wanted:
        if isinstance(key, Mapping) and (_is_record(key) or set(key) == {"key"}):
            msg = f"delete takes keys, not a record like {reprlib.repr(dict(key))}: write delete({key['key']!r})"
            raise UsageError(f"{msg}, or, if this object is a key itself, put([(key, None)])")
    return wanted


def records_given(records: Any) -> Iterator[Mapping[str, Any]]:
    """The records of ``produce``. Raises UsageError for a single record, and, naming it, for an item that is none."""
    if isinstance(records, (*_TEXT, Mapping)) or not isinstance(records, Iterable):
        shown = reprlib.repr(records)
        right = f"[{shown}]" if isinstance(records, Mapping) else "[{'key': …, 'value': …}]"
        raise UsageError(f"produce takes a list of records, not {shown}: write produce({right})")
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Mapping):
            raise UsageError(
                f"record {number} of produce, {reprlib.repr(record)}, is no record: write {{'key': …, 'value': …}}"
            )
        yield record


def _is_record(found: Mapping[Any, Any]) -> bool:
    """Whether a mapping has key and value, and no other fields than those of a record."""
    return _RECORD <= set(found) <= set(FIELDS)
