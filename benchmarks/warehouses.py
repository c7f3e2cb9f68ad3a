"""Applications with the join of ``join.yaml``, on temporary warehouses, and the runs of that join."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import data
from benchmarks.data import Size
from benchmarks.harness import Cost, cost_of, forget_the_past, processor_seconds, spent_since
from kaspr_delta import Application
from kaspr_delta.engine.batch.counters import work_of
from kaspr_delta.engine.batch.progress import BatchReport
from kaspr_delta.engine.rows.keyed_table import KeyedTable
from kaspr_delta.engine.rows.local_rows import LocalRows
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from kaspr_delta.runtime.run_events import BatchDone, RunEvent
from kaspr_delta.storage.arrow_types import collected
from kaspr_delta.storage.layout import PROGRESS, state_ref
from tests.continuous import running
from tests.folders import folder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

JOIN = "join/orders-products"
_MANIFEST = Path(__file__).with_name("join.yaml")
_EVERY = "100ms"
_POLL = 0.02
# Within this many seconds a continuous run begins a fold that is due.
_TICK = 2
# Seconds that a batch may take before its benchmark fails.
_PATIENCE = 3_600


class Followed(NamedTuple):
    """The cost of following a commit, until it is readable on the channel and until it is folded.

    Both have all processor seconds: those of folds cannot be separated.
    """

    until_readable: Cost
    until_folded: Cost


@dataclass(frozen=True, slots=True)
class Orders:
    """An application whose tables are filled."""

    app: Application

    @classmethod
    def filled(cls, folder: Path, size: Size) -> Orders:
        """An application with rows of a size on a new warehouse, whose join has not run yet."""
        app = Application.open(_MANIFEST, warehouse=folder)
        app.delta.append(app.spark, data.products(app.spark, size), "products")
        app.delta.append(app.spark, data.orders(app.spark, size).repartition(8), "orders")
        return cls(app)

    @property
    def plan(self) -> ForeignKeyJoinPlan:
        """The join's plan."""
        plan = self.app.plan.join("orders-products")
        if not isinstance(plan, ForeignKeyJoinPlan):
            msg = f"{_MANIFEST} has no foreign-key join"
            raise TypeError(msg)
        return plan

    def place(self, table: str) -> str:
        """The folder of a Delta table."""
        return str(folder_of(self.app.delta.namespace, table))

    def version(self, table: str) -> int:
        """The newest version of a table."""
        return self.app.delta.newest(self.app.spark, table).version

    def committed_at(self, table: str) -> float:
        """When the newest commit of a table was made."""
        return self.app.delta.newest(self.app.spark, table).at.timestamp()

    def load(self) -> Followed:
        """Run the join until it is quiet. On a new warehouse this is its first load."""
        started = time.time()
        cost = cost_of(lambda: self.app.run(only=[JOIN]))
        readable, folded = self.committed_at(self.plan.log), self.committed_at(PROGRESS)
        return Followed(Cost(readable - started, cost.cpu), Cost(folded - started, cost.cpu))

    @property
    def results(self) -> DataFrame:
        """The result of the join as it is now."""
        return self.app.delta.read(self.app.spark, self.plan.result)

    @property
    def state_seconds(self) -> float:
        """Seconds of the folds of the join's deferred state."""
        told = self.app.delta.read(self.app.spark, PROGRESS).where(f"resource = '{state_ref(JOIN)}'").select("seconds")
        return sum(float(row["seconds"]) for row in told.collect())

    def forget_the_past(self) -> None:
        """Delete old data files, to make room on the disk. No batch may run meanwhile; a fold may."""
        for table in ("orders", self.plan.result):
            forget_the_past(self.place(table))

    def expect(self, results: int) -> None:
        """Raise RuntimeError unless the result has so many rows: a fast wrong answer is no measurement."""
        found = self.results.count()
        if found != results:
            msg = f"the join has {found} rows, not {results}"
            raise RuntimeError(msg)

    def write(self, rows: DataFrame, table: str) -> None:
        """Write rows to a table as a function would. They must fit the driver."""
        plan = self.app.plan.table(table)
        if plan is None:
            raise LookupError(table)
        KeyedTable(self.app.delta, plan).write(LocalRows(rows.sparkSession, collected(rows)))

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Stop the work of the join within the block, so that the measured work has the machine to itself.

        If a fold is due after the block, wait until it is made: without the pause it would have been made already.
        """
        with self.app.delta.namespace.table_group_lock(JOIN):
            yield
        time.sleep(_TICK)
        with self.app.delta.namespace.table_group_lock(JOIN):
            pass

    @contextmanager
    def running(self) -> Iterator[Running]:
        """Run the join within the block, as ``run --continuous`` does."""
        reports: list[BatchReport] = []

        def listener(event: RunEvent) -> None:
            if isinstance(event, BatchDone):
                reports.append(event.report)

        with running(self.app, every=_EVERY, only=[JOIN], listener=listener) as failures:
            join = Running(self, reports, failures)
            join.wait_for_stream()
            yield join


@dataclass
class Running:
    """A join that runs continuously, the reports of its batches, and the error that stopped it.

    ``written`` is the number of rows that ``follow`` has written.
    """

    orders: Orders
    reports: list[BatchReport]
    failures: list[Exception]
    written: int = 0

    def wait_for_stream(self) -> None:
        """Wait until the stream has initialized its sources."""
        self._until(lambda: any(q.name == JOIN and q.status["message"] != "Initializing sources" for q in self._active))

    def follow(self, rows: DataFrame, table: str, count: int, *, folded: bool = True) -> Followed:
        """Write ``count`` rows to a table, and wait until the change is readable and, if ``folded``, also folded.

        A fold waits for further batches. The wait is not counted, only the time that the fold takes.
        """
        log, spent = self.orders.plan.log, self.fold_seconds
        known = self.orders.version(log)
        self.orders.write(rows, table)
        self.written += count
        began, before = self.orders.committed_at(table), processor_seconds()
        self._until(lambda: self.orders.version(log) > known)
        readable = self.orders.committed_at(log) - began
        self._until(lambda: not any(query.status["isTriggerActive"] for query in self._active))
        if folded:
            self.settle()
        cpu = spent_since(before)
        return Followed(Cost(readable, cpu), Cost(readable + self.fold_seconds - spent, cpu))

    def settle(self) -> None:
        """Wait until all written rows are folded."""
        self._until(lambda: sum(report.rows_in for report in self.reports) >= self.written)

    @property
    def fold_seconds(self) -> float:
        """Seconds of all folds so far."""
        return sum(work_of(json.loads(report.counts)).get("fold", 0) for report in self.reports) / 1_000

    @property
    def _active(self) -> list[StreamingQuery]:
        return list(self.orders.app.spark.streams.active)

    def _until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not done():
            if self.failures:
                raise self.failures[0]
            if time.monotonic() > deadline:
                msg = f"{JOIN} has not followed within {_PATIENCE} s"
                raise TimeoutError(msg)
            time.sleep(_POLL)
