"""The parts that run one resource."""

from __future__ import annotations

from typing import NamedTuple

from kaspr_delta.engine.batch.batch import Batch
from kaspr_delta.engine.batch.recovery import Recovery
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.engine.batch.stream_run import StreamRun
from kaspr_delta.storage.tables import Tables


class ResourceRun(NamedTuple):
    """A resource's batch, its recovery, and its stream. They share the end of its log, which the batch knows."""

    batch: Batch
    recovery: Recovery
    stream: StreamRun

    @property
    def resource(self) -> Resource:
        """The resource."""
        return self.batch.resource


def run_over(delta: Tables, resource: Resource) -> ResourceRun:
    """The parts that run a resource."""
    batch = Batch(delta, resource)
    recovery = Recovery(batch)
    return ResourceRun(batch, recovery, StreamRun(batch, recovery))
