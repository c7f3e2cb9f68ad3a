"""The events of a run, for a listener that shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kaspr_delta.plan.definition.resources import ResourceRef

if TYPE_CHECKING:
    from kaspr_delta.engine.batch.checkpoint import BatchId
    from kaspr_delta.engine.batch.progress import BatchReport


@dataclass(frozen=True)
class RunEvent:
    """An event of one resource. Events come from several threads at the same time."""

    resource: ResourceRef


class Started(RunEvent):
    """A resource starts to look for new rows."""


@dataclass(frozen=True)
class BatchDone(RunEvent):
    """A resource has committed and folded a batch."""

    batch: BatchId
    report: BatchReport


@dataclass(frozen=True)
class LagSeen(RunEvent):
    """The number of rows and records that a resource has not read yet."""

    rows: int


class CaughtUp(RunEvent):
    """A resource has processed all rows that were there when it started."""


@dataclass(frozen=True)
class Waits(RunEvent):
    """A resource cannot go on with the applied manifests, or with its tables in their present form."""

    reason: str


@dataclass(frozen=True)
class Failed(RunEvent):
    """A resource has stopped; the others go on."""

    error: Exception


class ColumnsChanged(RunEvent):
    """Columns were added or moved in a table that a resource reads. It goes on, with columns matched by name."""


@dataclass(frozen=True)
class Migrated(RunEvent):
    """The state of a resource had an older format, and has that of this version now."""

    before: int


@dataclass(frozen=True)
class GapFilled(RunEvent):
    """A resource goes on although changes that it had not read are gone from the change feed.

    ``rebuilt``: its state was rebuilt. Otherwise it has read the rows of its topic, and nothing is missing.
    """

    rebuilt: bool


@dataclass(frozen=True)
class StateRebuilt(RunEvent):
    """The state of a resource was made anew, because its definition has changed."""

    reason: str


Listener: TypeAlias = Callable[[RunEvent], None]


def ignore_event(event: RunEvent) -> None:
    """The listener that ignores all events."""
