"""What a run tells while it goes on, to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from kaspr_delta.engine.batch.progress import BatchReport
from kaspr_delta.plan.definition.resources import ResourceRef


@dataclass(frozen=True, slots=True)
class Started:
    """A resource looks for something to do."""

    resource: ResourceRef


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A resource has committed and folded a batch."""

    resource: ResourceRef
    report: BatchReport


@dataclass(frozen=True, slots=True)
class LagSeen:
    """How many rows and records a resource has yet to read."""

    resource: ResourceRef
    rows: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A resource has processed all there was when it started."""

    resource: ResourceRef


@dataclass(frozen=True, slots=True)
class Waits:
    """A resource cannot go on with what is applied, or with its tables as they are by now."""

    resource: ResourceRef
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A resource has stopped; the others go on."""

    resource: ResourceRef
    error: Exception


@dataclass(frozen=True, slots=True)
class ColumnsChanged:
    """Columns of a table that a resource reads were added or moved: it goes on, with columns matched by name."""

    resource: ResourceRef


@dataclass(frozen=True, slots=True)
class GapFilled:
    """Changes that a resource had not read were gone from the change feed, and it goes on all the same.

    ``rebuilt``: its state was made anew. Otherwise it has read the rows of its topic, and nothing is missing.
    """

    resource: ResourceRef
    rebuilt: bool


RunEvent: TypeAlias = Started | BatchDone | LagSeen | CaughtUp | ColumnsChanged | GapFilled | Waits | Failed
"""Events come from the threads of several resources at once."""

Listener: TypeAlias = Callable[[RunEvent], None]


def nobody(event: RunEvent) -> None:
    """The listener of a run that nobody watches."""
