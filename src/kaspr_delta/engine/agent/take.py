"""Several events at once: which of the records that wait are handed to the function now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kaspr_delta.engine.agent.event import InputRecord
from kaspr_delta.plan.definition import TakePlan


def taken(records: Sequence[InputRecord], take: TakePlan | None, *, rest: bool) -> Iterator[Sequence[InputRecord]]:
    """Records in groups of ``take.most``; the last group, if it is smaller, only with ``rest``. Without a take: singly.

    >>> [len(group) for group in taken(range(5), TakePlan(2, 1_000), rest=False)]
    [2, 2]
    """
    most = 1 if take is None else take.most
    for first in range(0, len(records), most):
        group = records[first : first + most]
        if len(group) == most or rest:
            yield group
