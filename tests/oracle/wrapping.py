"""Many cases in one application, told apart by the first part of their keys.

A case's key ``"k1"`` is ``[7,"k1"]``, where 7 is the number of the case. Its keys keep their order, and no case sees
another's rows. Values are wrapped: functions in manifests find the case and its parameters there, and a stream's record
without a key is still known to be of its case. Kafka Streams drops rows of tables without a key; here such a row is
written, belongs to no case and must trouble none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kaspr_delta.errors import KasprError
from tests.oracle.case import Case, text

SIDES = ("left", "right")


class StrayResultError(KasprError):
    """A result that shows no case it could belong to."""


def wrapped_key(number: int, key: Any) -> Any:
    """The key of a case's row or record."""
    return None if key is None else [number, key]


def wrapped(number: int, case: Case, value: Any) -> Any:
    """The value of a case's row or record."""
    return None if value is None else {"case": number, "params": dict(case.params), "row": value}


def unwrapped(value: Any) -> Any:
    """A value as it was recorded. What is not wrapped stays as it is: no recorded value looks like it."""
    return value["row"] if isinstance(value, Mapping) and "row" in value else value


def joined(value: Any, side: Callable[[Any], Any] = unwrapped) -> str | None:
    """The text of what a join gave, each side as it was recorded; None is a tombstone."""
    return None if value is None else text({name: side(value[name]) for name in SIDES})


def owner(key: Any, value: Any) -> tuple[int, Any]:
    """The number of the case that a result belongs to, and the key as it was recorded. Raises StrayResultError."""
    if isinstance(key, list | tuple) and len(key) == len(("number", "key")) and isinstance(key[0], int):
        return key[0], key[1]
    if key is None and isinstance(value, Mapping):
        for side in (value, *(value.get(name) for name in SIDES)):
            if isinstance(side, Mapping) and "case" in side:
                return int(side["case"]), None
    msg = f"key {text(key)} with value {text(value)} belongs to no case"
    raise StrayResultError(msg)
