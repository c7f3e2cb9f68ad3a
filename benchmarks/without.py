"""Switches native operations off, so that Spark does them: the difference in cost is what the operation saves."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from kaspr_delta.storage.native import attempts, look_up
from kaspr_delta.storage.native.supports import SUPPORT, Operation, supports
from kaspr_delta.storage.native.tables import NativeTables
from kaspr_delta.storage.tables import Tables

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Groups of methods of ``NativeTables`` that read without Spark, by the name of their operation.
_METHODS = {
    "newest version": ("newest",),
    "description": ("exists", "columns", "table_id"),
    "number of files": ("change_file_count",),
    "query": ("query",),
}


def _leave_out(operations: Collection[str]) -> None:
    def others(operation: Operation, opened: DeltaTable) -> bool:
        return operation not in operations and supports(operation, opened)

    attempts.__dict__["supports"] = others


def _use_spark(methods: Collection[str]) -> None:
    for name in methods:
        setattr(NativeTables, name, getattr(Tables, name))


def _never(owner: Any, name: str) -> None:
    setattr(owner, name, lambda *_, **__: False)


OPERATIONS: dict[str, Callable[[], None]] = {
    **{name: partial(_leave_out, {name}) for name in SUPPORT},
    **{name: partial(_use_spark, methods) for name, methods in _METHODS.items()},
    "copy": partial(_never, NativeTables, "_copied"),
    "look up by Arrow": partial(_never, look_up, "has_plain_files"),
}
"""By name, a function that lets Spark do the operation for the rest of the process."""
