"""The storage of the web side: tables read by key, topics to append to, and the data of pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa

from kaspr_delta.control.figures import lags_in_folder
from kaspr_delta.control.source_tables import columns_in_folder
from kaspr_delta.control.store import FolderStore, Store
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef, TablePlan
from kaspr_delta.spec.ddl import Column
from kaspr_delta.storage.layout import TOPIC
from kaspr_delta.storage.native.page_reads import NativePageReads
from kaspr_delta.storage.page_reads import PageReads
from kaspr_delta.web.access import Visitor
from kaspr_delta.web.local_copy import LOOK, LocalCopy


class WebStore(Store, Protocol):
    """The tables of one application, and what pages and metrics tell of them, without a Spark session."""

    @property
    def look(self) -> float:
        """Seconds between two looks at the registry."""

    @property
    def tables(self) -> PageReads:
        """The reads of Delta tables for pages."""

    @property
    def ready(self) -> bool:
        """Whether reads are fast by now for all tables that were asked for."""

    def reader(self, plan: TablePlan) -> Any:
        """The TableReader of a table: of keys, or of cells if it has windows."""

    def has(self, table: str) -> bool:
        """Whether a Delta table exists."""

    def columns(self, table: str) -> tuple[Column, ...] | str:
        """The columns of a foreign table, or why it cannot be read."""

    def lags(self, plan: Plan) -> Mapping[ResourceRef, Mapping[str, int] | str]:
        """The lags of all resources that run, see ``Figures.lags``; none if they are not known."""

    def append(self, topic: str, records: pa.Table) -> None:
        """Append records to the Delta table of a topic in one commit; the table is made if it does not exist."""

    def seen_by(self, visitor: Visitor) -> WebStore:
        """The store with the permissions of a visitor of pages."""

    def close(self) -> None:
        """Release threads and files, if there are any."""


@dataclass
class LocalStore(FolderStore):
    """Implements WebStore for tables in a folder, here or in a bucket.

    The first read of a table makes a copy on this machine, which then follows the table.
    """

    look: float = 0.5
    tables: PageReads = field(init=False)
    _copies: dict[Any, LocalCopy] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tables = NativePageReads(self.delta)
        if self._in_bucket:  # each look is a request
            self.look = self.delta.namespace.poll_seconds

    @property
    def _in_bucket(self) -> bool:
        return not self.delta.namespace.home.is_here

    @property
    def ready(self) -> bool:
        return all(copy.ready or not self.has(copy.plan.state) for copy in list(self._copies.values()))

    def reader(self, plan: TablePlan) -> LocalCopy:
        # A new declaration of a table may change its serializers, windows or columns.
        known = plan.state, plan.serializers, plan.window, plan.typed, plan.row_type
        with self._lock:
            if known not in self._copies:
                self._copies[known] = LocalCopy(self.delta, plan, self.look if self._in_bucket else LOOK)
                self._copies[known].follow()
            return self._copies[known]

    def has(self, table: str) -> bool:
        return self.delta.head(table) is not None

    def columns(self, table: str) -> tuple[Column, ...] | str:
        found = columns_in_folder(self.delta, table)
        if found is None and self.delta.has_folder(table):
            return f"'{table}' has features that only Spark reads: a web view cannot show it"
        return found or f"'{table}' is in a catalog, which only Spark reads: name the table's folder in `source`"

    def lags(self, plan: Plan) -> Mapping[ResourceRef, Mapping[str, int] | str]:
        return lags_in_folder(self.delta, plan)

    def append(self, topic: str, records: pa.Table) -> None:
        self.delta.ensure(topic, TOPIC)
        self.delta.append(topic, records)

    def seen_by(self, visitor: Visitor) -> LocalStore:  # noqa: ARG002  all are the user of the server
        return self

    def close(self) -> None:
        for copy in self._copies.values():
            copy.close()
