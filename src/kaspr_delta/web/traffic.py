"""The answers of web views and the lags of resources since the server started, for their pages."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from threading import Lock

from kaspr_delta.plan.definition.resources import ResourceRef

# Answers of each view, and lags of each resource, that are kept.
_RECENT = 200
_KEPT = 240


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer: when, its status, and the seconds that it took."""

    at: datetime
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ViewTraffic:
    """The answers of one view: how many by status, and the newest, the oldest of them first."""

    statuses: dict[int, int]
    recent: tuple[Answered, ...]

    @property
    def requests(self) -> int:
        """The number of all answers."""
        return sum(self.statuses.values())

    def within(self, share: float) -> float:
        """The milliseconds within which this share of the newest answers was ready."""
        seconds = sorted(one.seconds for one in self.recent)
        return 1_000 * seconds[min(len(seconds) - 1, int(share * len(seconds)))] if seconds else 0.0


@dataclass
class Traffic:
    """Counts the answers of all views."""

    _statuses: dict[str, Counter[int]] = field(default_factory=dict, init=False)
    _recent: dict[str, deque[Answered]] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def answered(self, view: str, status: int, seconds: float) -> None:
        """Count an answer of a view."""
        with self._lock:
            self._statuses.setdefault(view, Counter())[status] += 1
            recent = self._recent.setdefault(view, deque(maxlen=_RECENT))
            recent.append(Answered(datetime.now(timezone.utc), status, seconds))

    def of(self, view: str) -> ViewTraffic:
        """The answers of a view."""
        with self._lock:
            return ViewTraffic(dict(sorted(self._statuses.get(view, {}).items())), tuple(self._recent.get(view, ())))


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
