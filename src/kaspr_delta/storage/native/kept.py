"""Tables in buckets that stay open: to open one reads each commit since its checkpoint.

delta-rs changes a table object when it writes, and has no copy of it, so one operation at a time has it. It is used
again only if the log still has the commit that it was listed with, see ``log_files.listed``, and after an error never.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaspr_delta.storage.folders import Folder
from kaspr_delta.storage.native.log_files import last_listed, listed
from kaspr_delta.storage.tables import Transaction

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Tables that are kept, and objects of each. A run has more tables than threads that work on one of them.
_TABLES = 64
_OF_A_TABLE = 2


@dataclass
class OpenTable:
    """A table object of delta-rs, with what was found out about its version."""

    table: DeltaTable
    life: object = None
    _transactions: dict[str, int | None] = field(default_factory=dict)
    _known_at: int = -1

    def last_transaction(self, app_id: str) -> int | None:
        """The version of the last transaction of an application. delta-rs reads the log for it each time."""
        self._at_version()
        if app_id not in self._transactions:
            self._transactions[app_id] = self.table.transaction_version(app_id)
        return self._transactions[app_id]

    def committed(self, transaction: Transaction | None, before: int) -> None:
        """Note a commit to the version ``before``: what is known of that one holds, unless others committed too."""
        if self._known_at == before == self.table.version() - 1:
            self._known_at += 1
            if transaction is not None:
                self._transactions[transaction.app_id] = transaction.version

    def _at_version(self) -> None:
        if self._known_at != self.table.version():
            self._transactions.clear()
            self._known_at = self.table.version()


_idle: OrderedDict[str, list[OpenTable]] = OrderedDict()
_lock = threading.Lock()


@contextmanager
def lent(
    location: Folder, open_table: Callable[[int | None], DeltaTable], version: int | None
) -> Iterator[OpenTable | None]:
    """A table in a bucket, open at a version, or at the newest one; None where there is no table.

    ``open_table`` opens it, and raises deltalake's error where there is no such version.
    """
    known = last_listed(location)
    if known is None or known.head.version != version:  # a version that is read was listed, when it was pinned
        known = listed(location)
    if known is None:
        yield None
        return
    one = _taken(location, known.life) if version in {None, known.head.version} else None
    if one is not None and one.table.version() < known.head.version:
        one.table.update_incremental()
    if one is not None and version is not None and one.table.version() > version:  # somebody has just committed
        _give_back(location, one)
        one = None
    if one is None:
        one = OpenTable(open_table(version), known.life)
    yield one
    if one.table.version() >= known.head.version:
        _give_back(location, one)


def _taken(location: Folder, life: object) -> OpenTable | None:
    """An object that nobody has; those of a table that is gone are forgotten."""
    with _lock:
        idle = [one for one in _idle.pop(str(location), ()) if one.life is life]
        found = idle.pop() if idle else None
        if idle:
            _idle[str(location)] = idle
    return found


def _give_back(location: Folder, one: OpenTable) -> None:
    with _lock:
        idle = sorted([*_idle.pop(str(location), ()), one], key=lambda one: one.table.version())
        _idle[str(location)] = idle[-_OF_A_TABLE:]
        if len(_idle) > _TABLES:
            _idle.popitem(last=False)
