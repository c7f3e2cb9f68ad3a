"""Several events at once: which of the records that wait are handed to the function now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kaspr_delta.engine.streams.event import InputRecord
from kaspr_delta.plan.definition.resources import TakePlan


def most_of(take: TakePlan | None) -> int:
    """How many records are one event, at most."""
    return 1 if take is None else take.most


def ready(waiting: int, take: TakePlan | None, *, rest: bool) -> int:
    """How many of the records that wait are processed now: those of a smaller last group only with ``rest``.

    >>> ready(5, TakePlan(2, 1_000), rest=False)
    4
    """
    return waiting if rest else waiting - waiting % most_of(take)


def taken(records: Sequence[InputRecord], take: TakePlan | None) -> Iterator[Sequence[InputRecord]]:
    """Records in groups of ``take.most``, and a smaller last one; without a take singly.

    >>> [len(group) for group in taken(range(5), TakePlan(2, 1_000))]
    [2, 2, 1]
    """
    most = most_of(take)
    return (records[first : first + most] for first in range(0, len(records), most))
