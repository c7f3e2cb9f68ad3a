"""What one batch of an agent leaves for the next."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kaspr_delta.engine.streams.clock import Clock


@dataclass(frozen=True, slots=True)
class AgentState:
    """How far an agent is. Positions are offsets by topic or channel.

    ``done`` is what was processed, ``read`` what the stream has brought: they differ while records wait for the others
    of their ``take``, the oldest of them ``since`` that many Unix seconds. ``clocks`` are stream times in milliseconds,
    by windowed table and stream.
    """

    done: Mapping[str, int] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)
    since: float | None = None
    clocks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> AgentState:
        """The state that ``plain`` stands for; what another version kept beside is left out."""
        return cls(**{name: plain[name] for name in cls.__dataclass_fields__ if name in plain})

    @property
    def plain(self) -> dict[str, Any]:
        """As it stands in the log."""
        return asdict(self)

    @property
    def waiting(self) -> bool:
        """Whether records were read that are not processed."""
        return self.since is not None

    def at(self, positions: Mapping[str, int]) -> AgentState:
        """All was processed, up to these positions."""
        reached = {**self.read, **positions}
        return replace(self, done=reached, read=reached, since=None)

    def reached(self, positions: Mapping[str, int]) -> AgentState:
        """The stream has brought what is up to these positions too."""
        return replace(self, read={**self.read, **positions})

    def processed(self, positions: Mapping[str, int]) -> AgentState:
        """Of what was read, that up to these positions was processed; the others wait, since now if they came now."""
        since = time.time() if positions or self.since is None else self.since
        return replace(self, done={**self.done, **positions}, since=since)

    def with_clocks(self, clocks: Mapping[str, Clock]) -> AgentState:
        """Streams have come to these times."""
        return replace(self, clocks={**self.clocks, **{name: clock.times for name, clock in clocks.items()}})
