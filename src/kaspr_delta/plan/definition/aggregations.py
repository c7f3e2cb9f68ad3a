"""Tables that are made from streams or tables, as they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.joins import StreamPlan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.spec.diagnostics import Location

AggregationKind = Literal["toTable", "count", "reduce", "aggregate"]


@dataclass(frozen=True, slots=True)
class AggregationPlan:
    """How the table ``name`` is made from ``origin``: a stream, or the name of a table or of a table-valued join.

    ``group`` gives the key of the group that a value belongs to; None: the record's own key. ``adder`` is the function
    of ``reduce`` and ``aggregate``; only ``aggregate`` has an ``initializer`` and, over a table, a ``subtractor``.
    What every row of a table contributed is kept in the Delta table ``contributions``; the times of groups that are
    newer than their rows are in ``group_times``.
    """

    name: str
    kind: AggregationKind
    origin: StreamPlan | str
    group: Snippet | None
    initializer: Snippet | None
    adder: Snippet | None
    subtractor: Snippet | None
    log: str
    contributions: str
    group_times: str
    location: Location

    @property
    def ref(self) -> ResourceRef:
        """The table as a resource that runs."""
        return ResourceRef("table", self.name)

    @property
    def source(self) -> str:
        """What feeds it, as people read it: ``topic/x``, ``join/x`` or ``table/x``."""
        return f"table/{self.origin}" if isinstance(self.origin, str) else self.origin.label
