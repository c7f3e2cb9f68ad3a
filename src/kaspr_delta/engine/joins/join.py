"""The base of all joins: the log is a channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from kaspr_delta.engine.batch.decision import Folded
from kaspr_delta.engine.batch.resource import Resource
from kaspr_delta.plan.definition.joins import JoinPlan
from kaspr_delta.storage.layout import RECORDS

JoinPlanT = TypeVar("JoinPlanT", bound=JoinPlan)


class Join(Resource[JoinPlanT]):
    """A resource whose log is a channel."""

    counted: ClassVar[tuple[str, ...]] = ("kind", "failed")
    """Columns of the log. A foreign-key join has a third one, which marks stale rows."""

    def numbers(self, counts: Mapping[tuple[Any, ...], int]) -> Folded:
        return Folded(
            sum(count for name, count in counts.items() if name[0] in RECORDS),
            sum(count for name, count in counts.items() if name[1]),
            sum(count for name, count in counts.items() if any(name[2:])),
        )
