"""Plans of tables that are made from a stream, a table or the result of a join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kaspr_delta.functions.snippet import Snippet
from kaspr_delta.plan.definition.joins import StreamPlan
from kaspr_delta.plan.definition.resources import Referred
from kaspr_delta.spec.aggregation import Operation
from kaspr_delta.spec.diagnostics import Location


@dataclass(frozen=True, slots=True)
class AggregationPlan(Referred):
    """How the table ``name`` is made from ``origin``: a stream, or the name of a table or of a table-valued join.

    ``group`` returns the key of a value's group; None: the record's own key. ``adder`` is the function of ``reduce``
    and ``aggregate``. Only ``aggregate`` has an ``initializer`` and, over a table, a ``subtractor``. Over a table, the
    Delta table ``contributions`` keeps the contribution of each row of the origin; ``group_times`` keeps the times of
    groups that are newer than their rows.
    """

    name: str
    kind: Operation
    origin: StreamPlan | str
    group: Snippet | None
    initializer: Snippet | None
    adder: Snippet | None
    subtractor: Snippet | None
    log: str
    contributions: str
    group_times: str
    location: Location

    ref_kind: ClassVar = "table"

    @property
    def source(self) -> str:
        """The origin for people: ``topic/x``, ``join/x`` for a channel, ``table/x`` for a table or a join's result."""
        return f"table/{self.origin}" if isinstance(self.origin, str) else self.origin.label
