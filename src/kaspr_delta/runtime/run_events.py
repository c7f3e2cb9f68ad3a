"""The events of a run, for a listener that shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from kaspr_delta.engine.batch.progress import BatchReport
from kaspr_delta.plan.definition.resources import ResourceRef


@dataclass(frozen=True, slots=True)
class Started:
    """A resource starts to look for new rows."""

    resource: ResourceRef


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A resource has committed and folded a batch."""

    resource: ResourceRef
    report: BatchReport


@dataclass(frozen=True, slots=True)
class LagSeen:
    """The number of rows and records that a resource has not read yet."""

    resource: ResourceRef
    rows: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A resource has processed all rows that were there when it started."""

    resource: ResourceRef


@dataclass(frozen=True, slots=True)
class Waits:
    """A resource cannot go on with the applied manifests, or with its tables in their present form."""

    resource: ResourceRef
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A resource has stopped; the others go on."""

    resource: ResourceRef
    error: Exception


@dataclass(frozen=True, slots=True)
class ColumnsChanged:
    """Columns were added or moved in a table that a resource reads. It goes on, with columns matched by name."""

    resource: ResourceRef


@dataclass(frozen=True, slots=True)
class GapFilled:
    """A resource goes on although changes that it had not read are gone from the change feed.

    ``rebuilt``: its state was rebuilt. Otherwise it has read the rows of its topic, and nothing is missing.
    """

    resource: ResourceRef
    rebuilt: bool


RunEvent: TypeAlias = Started | BatchDone | LagSeen | CaughtUp | ColumnsChanged | GapFilled | Waits | Failed
"""Events come from several threads at the same time."""

Listener: TypeAlias = Callable[[RunEvent], None]


def ignore_event(event: RunEvent) -> None:
    """The listener that ignores all events."""
