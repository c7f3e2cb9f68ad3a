"""Resources that share tables (a table group): side by side if a lock keeps their batches apart, else in turns.

Where batches run in this process, or locks bind other processes, each batch takes the lock of the group. On Spark
Connect the server runs batches, the client runs timed work, and the two may share no lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from kaspr_delta.engine.batch.stream_run import ResourceRun
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.lazy_session import runs_here
from kaspr_delta.storage.namespace import Namespace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TableGroups:
    """Decides which resources run at the same time, in a session on a namespace."""

    spark: SparkSession
    namespace: Namespace
    runs: Mapping[ResourceRef, ResourceRun]

    @property
    def by_batch(self) -> bool:
        """Whether resources that share tables may run at the same time, because their batches exclude each other."""
        return self.namespace.locks_bind_other_processes or runs_here(self.spark)

    def apart(self, refs: Sequence[ResourceRef]) -> list[list[ResourceRef]]:
        """The resources in lists that run one after another. Unless ``by_batch``, no two of a list share tables."""
        if self.by_batch:
            return [list(refs)]
        groups: dict[str, list[ResourceRef]] = {}
        for ref in refs:
            groups.setdefault(self.runs[ref].resource.table_group, []).append(ref)
        return [[ref for ref in one_of_each if ref] for one_of_each in zip_longest(*groups.values())]

    @contextlib.contextmanager
    def held(self, refs: Sequence[ResourceRef]) -> Iterator[None]:
        """Keep timed work of this process apart from batches of these resources in other processes."""
        with contextlib.ExitStack() as held:
            for group in () if self.by_batch else sorted({self.runs[ref].resource.table_group for ref in refs}):
                held.enter_context(self.namespace.table_group_lock(group))
            yield
