"""Runs of resources as events of OpenLineage, with the datasets that they read and write.

``OPENLINEAGE_URL``, or another setting of its client, says where they go; ``OPENLINEAGE_NAMESPACE`` names the jobs'
namespace, else it is the application's.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import error_message_run

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import JoinPlan
from kaspr_delta.plan.definition.resources import AgentPlan, ChannelInput, ResourceRef
from kaspr_delta.plan.explain.flows import flows
from kaspr_delta.runtime import run_events as events
from kaspr_delta.runtime.failures import short_text

if TYPE_CHECKING:
    from typing_extensions import Self

_PRODUCER = "https://pypi.org/project/kaspr-delta"
# Seconds for which the end of a run waits until everything is sent.
_PATIENCE = 2.0
# Outputs whose names only a run tells.
_UNNAMED = ("topic by function", "topics that match")


@dataclass
class Lineage:
    """Receives the events of a run. Each resource is a job, from its start to its end, its failure or the run's end."""

    plan: Plan
    client: OpenLineageClient
    namespace: str
    _runs: dict[ResourceRef, str] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """The lineage of an application, to the receiver that the environment names."""
        return cls(plan, OpenLineageClient(), os.environ.get("OPENLINEAGE_NAMESPACE", plan.application))

    def close(self, *, failed: bool) -> None:
        """End the runs under way."""
        for ref in list(self._runs):
            self._end(ref, RunState.ABORT if failed else RunState.COMPLETE, datetime.now(timezone.utc))
        self.client.close(_PATIENCE)

    def take(self, event: events.RunEvent, at: datetime) -> None:
        """Receive an event."""
        match event:
            case events.Started() if event.resource not in self._runs:
                self._runs[event.resource] = str(uuid.uuid4())
                self._emit(event.resource, RunState.START, at, self._runs[event.resource])
            case events.CaughtUp():
                self._end(event.resource, RunState.COMPLETE, at)
            case events.Failed(error=error):
                self._end(event.resource, RunState.FAIL, at, short_text(error))

    def _end(self, ref: ResourceRef, state: RunState, at: datetime, message: str = "") -> None:
        run = self._runs.pop(ref, None)
        if run is not None:
            self._emit(ref, state, at, run, message)

    def _emit(self, ref: ResourceRef, state: RunState, at: datetime, run: str, message: str = "") -> None:
        read, written = datasets_of(self.plan, ref)
        facets = {"errorMessage": error_message_run.ErrorMessageRunFacet(message, "PYTHON")} if message else {}
        self.client.emit(
            RunEvent(
                eventType=state,
                eventTime=at.isoformat(),
                run=Run(run, {**facets}),
                job=Job(self.namespace, f"{self.plan.application}.{ref}"),
                inputs=[InputDataset(self.plan.schema, name) for name in read],
                outputs=[OutputDataset(self.plan.schema, name) for name in written],
                producer=_PRODUCER,
            )
        )


def datasets_of(plan: Plan, ref: ResourceRef) -> tuple[list[str], list[str]]:
    """The Delta tables that a resource reads, and those that it writes, as far as the plan names them."""
    running = plan.running(ref)
    names = _delta_names(plan)
    read, written = flows(plan, ref)
    if isinstance(running, AgentPlan) and isinstance(running.input, ChannelInput):  # it follows the channel
        join = running.input.join
        label, channel = f"join/{join}", next(one.log for one in plan.joins if one.name == join)
        read = tuple(channel if one == label and join not in running.tables else one for one in read)
    own = [names[str(ref)]] if str(ref) in names and ref.kind != "topic" else []
    if isinstance(running, JoinPlan):
        own.append(running.log)
    return _known(read, names), _known([*written, *own], names)


def _known(labels: Iterable[str], names: Mapping[str, str]) -> list[str]:
    found = (label.removesuffix(" (perhaps)") for label in labels)
    return list(dict.fromkeys(names.get(label, label) for label in found if _is_dataset(label)))


def _is_dataset(label: str) -> bool:
    return not label.startswith(("channel/", "its rows", *_UNNAMED))


def _delta_names(plan: Plan) -> dict[str, str]:
    """Delta tables by the resources whose rows they hold: ``kind/name``."""
    results = {str(join.ref): getattr(join, "result", join.log) for join in plan.joins}
    topics = {str(topic.ref): topic.delta_name for topic in plan.topics}
    return {**results, **topics, **{str(table.ref): table.delta_name for table in plan.tables}}
