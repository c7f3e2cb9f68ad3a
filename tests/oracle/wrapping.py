"""Many cases in one application, distinguished by the first part of their keys.

The key ``"k1"`` of case 7 is written as ``[7,"k1"]``. The keys of a case keep their order, and no case sees the rows of
another. Values are wrapped: they contain the number and the parameters of the case, for functions in manifests and for
stream records without a key. Kafka Streams drops table rows without a key; in this engine such a row is written,
belongs to no case and must not change a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kaspr_delta.errors import KasprError
from tests.oracle.case import Case, text

SIDES = ("left", "right")


class StrayResultError(KasprError):
    """A result that belongs to no case."""


def wrapped_key(number: int, key: Any) -> Any:
    """The key of a case's row or record."""
    return None if key is None else [number, key]


def wrapped(number: int, case: Case, value: Any) -> Any:
    """The value of a case's row or record."""
    return None if value is None else {"case": number, "params": dict(case.params), "row": value}


def unwrapped(value: Any) -> Any:
    """A value in the recorded form. A value that is not wrapped stays as it is: no recorded value has a ``row``."""
    return value["row"] if isinstance(value, Mapping) and "row" in value else value


def joined(value: Any, side: Callable[[Any], Any] = unwrapped) -> str | None:
    """The text of a join's value, each side in the recorded form; None is a tombstone."""
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
