"""The lags of resources since the server started, for their pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from threading import Lock

from kaspr_delta.plan.definition.resources import ResourceRef

_KEPT = 240
"""Moments that are kept of each resource."""


@dataclass
class LagHistory:
    """Keeps the newest lags of each resource, with their moments."""

    _seen: dict[ResourceRef, deque[tuple[datetime, int]]] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def note(self, lags: Mapping[ResourceRef, Mapping[str, int] | str]) -> None:
        """Add lags of now, by resource and source. Those that are unknown, which are text, are left out."""
        now = datetime.now(timezone.utc)
        with self._lock:
            for ref, of in lags.items():
                if not isinstance(of, str):
                    self._seen.setdefault(ref, deque(maxlen=_KEPT)).append((now, sum(of.values())))

    def of(self, ref: ResourceRef) -> list[tuple[datetime, int]]:
        """The lags of a resource, oldest first."""
        with self._lock:
            return list(self._seen.get(ref, ()))
