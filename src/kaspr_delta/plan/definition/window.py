"""Time windows: which windows an instant belongs to, and when they close and expire. All times in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kaspr_delta.functions.snippet import Snippet

RelativeTo = Literal["stream", "now", "custom"]
Emit = Literal["update", "close"]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How the rows of a table are split by time. Windows begin at whole multiples of ``step`` since 1970.

    A tumbling window has a step of its size. ``relative_to`` selects the time: the event's timestamp (``stream``), the
    clock (``now``) or the result of ``selector`` for the event's value (``custom``). A window closes ``grace`` after
    its end. Its rows are deleted ``expires`` after its end; None: never. With ``emit`` ``close`` a row appears when its
    window closes, otherwise with its first change.
    """

    size: int
    step: int
    expires: int | None
    grace: int
    emit: Emit
    relative_to: RelativeTo
    selector: Snippet | None

    def starts(self, at: int) -> range:
        """The starts of the windows that an instant belongs to, the oldest first.

        >>> list(WindowPlan(300, 100, None, 0, "update", "stream", None).starts(250))
        [0, 100, 200]
        """
        first = -((self.size - 1 - at) // self.step) * self.step
        return range(first, self.start(at) + 1, self.step)

    def start(self, at: int) -> int:
        """The start of the newest window that an instant belongs to."""
        return at // self.step * self.step

    def is_open(self, start: int, clock: int) -> bool:
        """Whether a window still takes events at stream time ``clock`` (Kafka Streams: ``grace``)."""
        return start + self.size + self.grace > clock

    def closed(self, clock: int) -> int:
        """The end of the newest window that has closed."""
        return self._last_end(clock - self.grace)

    def expired(self, clock: int) -> int | None:
        """The end of the newest window whose rows have expired; None: rows never expire."""
        return None if self.expires is None else self._last_end(clock - self.expires)

    def _last_end(self, at: int) -> int:
        return (at - self.size) // self.step * self.step + self.size
