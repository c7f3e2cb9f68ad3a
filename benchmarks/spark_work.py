"""The jobs that Spark runs and the files that it reads, counted exactly from Spark's own status stores.

It needs an embedded Spark: a Spark Connect server reports neither. Tests and benchmarks use it, the package does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES_READ = "number of files read"


class SparkWork:
    """The work of Spark that begins after this object was made, or after its last ``restart``."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.restart()

    def restart(self) -> None:
        """Count only work that begins from now on."""
        self._job = max((job.jobId() for job in self._all_jobs()), default=-1)
        self._statement = max((one.executionId() for one in self._all_statements()), default=-1)

    @property
    def job_count(self) -> int:
        """The number of jobs."""
        return sum(job.jobId() > self._job for job in self._all_jobs())

    @property
    def files_read(self) -> dict[str, int]:
        """The number of files that all statements read together, by the name of the scan, which names the table."""
        read: dict[str, int] = {}
        store = self._statements
        for one in self._all_statements():
            if one.executionId() > self._statement:
                values = store.executionMetrics(one.executionId())
                for node in _all(store.planGraph(one.executionId()).allNodes()):
                    for metric in _all(node.metrics()):
                        found = values.get(metric.accumulatorId())
                        if metric.name() == _FILES_READ and found.isDefined():
                            files = int(found.get().replace(",", ""))
                            read[node.name()] = read.get(node.name(), 0) + files
        return read

    @property
    def _statements(self) -> Any:
        return self.spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001  there is no public API

    def _all_jobs(self) -> list[Any]:
        context = self._context()
        return _all(context.statusStore().jobsList(None))

    def _all_statements(self) -> list[Any]:
        self._context()
        return _all(self._statements.executionsList())

    def _context(self) -> Any:
        """Spark's context, after all events so far have reached its stores."""
        context = self.spark._jsc.sc()  # noqa: SLF001  there is no public API
        context.listenerBus().waitUntilEmpty()
        return context


def _all(scala: Any) -> list[Any]:
    items = scala.toSeq() if hasattr(scala, "toSeq") else scala
    return [items.apply(number) for number in range(items.size())]
