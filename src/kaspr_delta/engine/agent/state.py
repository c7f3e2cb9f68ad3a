"""The state that one batch of an agent leaves for the next, and the groups of records of a ``take``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kaspr_delta.engine.streams.clock import Clock
from kaspr_delta.plan.definition.resources import TakePlan


@dataclass(frozen=True, slots=True)
class AgentState:
    """How far an agent is. Positions are offsets by topic or channel.

    ``done`` are the processed positions, ``read`` the positions that the stream has delivered. They differ while
    records wait for the others of their ``take``; the oldest has waited ``since`` this Unix time in seconds. ``clocks``
    are stream times in milliseconds, by windowed table and stream.
    """

    done: Mapping[str, int] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)
    since: float | None = None
    clocks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> AgentState:
        """The state from plain data. Fields of other versions are ignored."""
        return cls(**{name: plain[name] for name in cls.__dataclass_fields__ if name in plain})

    @property
    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def waiting(self) -> bool:
        """Whether records were read but not processed."""
        return self.since is not None

    def at(self, positions: Mapping[str, int]) -> AgentState:
        """The state after all records up to these positions were processed."""
        reached = {**self.read, **positions}
        return replace(self, done=reached, read=reached, since=None)

    def reached(self, positions: Mapping[str, int]) -> AgentState:
        """The state after the stream has delivered the records up to these positions."""
        return replace(self, read={**self.read, **positions})

    def processed(self, positions: Mapping[str, int]) -> AgentState:
        """The state after the read records up to these positions were processed, while the rest waits.

        The wait starts now if some were processed or nothing waited before.
        """
        since = time.time() if positions or self.since is None else self.since
        return replace(self, done={**self.done, **positions}, since=since)

    def with_clocks(self, clocks: Mapping[str, Clock]) -> AgentState:
        return replace(self, clocks={**self.clocks, **{name: clock.times for name, clock in clocks.items()}})


def most_of(take: TakePlan | None) -> int:
    """The maximal number of records in one event."""
    return 1 if take is None else take.most


def ready(waiting: int, take: TakePlan | None, *, rest: bool) -> int:
    """The number of waiting records to process now: a smaller last group is included only with ``rest``.

    >>> ready(5, TakePlan(2, 1_000), rest=False)
    4
    """
    return waiting if rest else waiting - waiting % most_of(take)
