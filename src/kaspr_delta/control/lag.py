"""The lag of a resource behind its inputs, read from Spark's checkpoints and Delta's logs without Spark."""

from __future__ import annotations

from kaspr_delta.control.rebuilds import start_in
from kaspr_delta.engine.batch.checkpoint import checkpoints_of
from kaspr_delta.engine.batch.sources import NOTHING, sources_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.stream_checkpoint import newest_stream, positions_in


def lags_of(delta: DeltaRs, plan: Plan, ref: ResourceRef) -> dict[str, int] | str:
    """The number of rows and records that a resource has not read yet, by the commits' own counts.

    By source: ``topic/x``, ``table/x`` or ``join/x``; the reason where it is unknown. For a channel the number is
    approximate. Records that were read and are held back until others come do not count.
    """
    topic = plan.topic(ref.name) if ref.kind == "topic" else None
    if topic is not None and topic.bound.direction == "input":
        return f"the records of {topic.bound.endpoint.text} are not counted"
    # A table of others that is not on this machine is left out: its log cannot be read here.
    sources = {name: source for name, source in sources_of(plan, ref).items() if delta.has_folder(source.table)}
    newest = newest_stream(checkpoints_of(delta.namespace, ref), "commits")
    positions = () if newest is None else positions_in(newest)
    if positions:
        read = {position.table_id: position.unread for position in positions if position is not None}
        first = {name: read.get(delta.table_id(source.table) or "") for name, source in sources.items()}
        lags = {
            name: 0 if version is None else delta.rows_changed(sources[name].table, version)
            for name, version in first.items()
        }
    else:  # no batch has ended yet: the resource stands where its checkpoint began
        start = start_in(delta.rows, plan.log_of(ref))
        began = {} if start is None else start.positions
        lags = {
            name: delta.rows_changed(source.table, source.first_unread(began[name]))
            if began.get(name, NOTHING) > NOTHING
            else delta.count(source.table)
            for name, source in sources.items()
        }
    return {sources[name].label: lag for name, lag in lags.items()}
