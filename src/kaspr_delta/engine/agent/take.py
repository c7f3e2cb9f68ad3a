"""``take``: how many of the waiting records a function gets at once, and which are processed now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kaspr_delta.engine.streams.event import InputRecord
from kaspr_delta.plan.definition.resources import TakePlan


def most_of(take: TakePlan | None) -> int:
    """The maximal number of records in one event."""
    return 1 if take is None else take.most


def ready(waiting: int, take: TakePlan | None, *, rest: bool) -> int:
    """The number of waiting records to process now: a smaller last group is included only with ``rest``.

    >>> ready(5, TakePlan(2, 1_000), rest=False)
    4
    """
    return waiting if rest else waiting - waiting % most_of(take)


def taken(records: Sequence[InputRecord], take: TakePlan | None) -> Iterator[Sequence[InputRecord]]:
    """Records in groups of ``take.most`` (the last may be smaller); without ``take`` one by one.

    >>> [len(group) for group in taken(range(5), TakePlan(2, 1_000))]
    [2, 2, 1]
    """
    most = most_of(take)
    return (records[first : first + most] for first in range(0, len(records), most))
