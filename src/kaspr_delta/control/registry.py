"""The registry of applied manifests, stored in the application's schema for later commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timedelta, timezone

from kaspr_delta.control.documents import Document, accepted_plans, manifests
from kaspr_delta.control.events import (
    FAILED,
    NORMAL,
    WARNING,
    Event,
    events_of_change,
    events_of_waiting,
)
from kaspr_delta.errors import SetupError
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.storage.layout import EVENTS, RESOURCES
from kaspr_delta.storage.system_tables import SystemTables

# The layout of an application's tables. Increment it for a change that an older or newer version would misread.
WAREHOUSE_FORMAT = 3
# A failure that goes on gets an event each hour.
_KNOWN_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Registry:
    """The applied documents of one application, and the events of its resources.

    Without the name of an ``app`` it is the only one of the documents: a folder has one, a schema of a catalog may
    have several.
    """

    tables: SystemTables
    app: str | None = None

    def documents(self) -> list[Document]:
        """All documents, in the order in which they were applied.

        Raises SetupError if another version of this package stored the application in another format.
        """
        rows = self.tables.rows(RESOURCES)
        found = (rows[0].get("format") or 0) if rows else WAREHOUSE_FORMAT
        if found != WAREHOUSE_FORMAT:
            back = ", or a copy of the warehouse from before it was used" if found > WAREHOUSE_FORMAT else ""
            raise SetupError(
                f"this application is kept in format {found}, and this version of kaspr-delta reads format"
                f" {WAREHOUSE_FORMAT}: use the version that wrote it{back}, or a new warehouse"
            )
        rows.sort(key=lambda row: row["position"])
        return [Document(**{name: row[name] for name in Document.__dataclass_fields__}) for row in rows]

    def plan(self, documents: Iterable[Document] | None = None) -> Plan | None:
        """The plan of the application, with the applied documents or with others; None unless exactly one is of it."""
        plans, _ = accepted_plans(self.documents() if documents is None else documents)
        found = [plan for plan in plans if plan.is_of(self.app)]
        return found[0] if len(found) == 1 else None

    def change(self, update: Callable[[list[Document]], list[Document]]) -> tuple[list[Document], list[Document]]:
        """Change the documents and append the resulting events. Returns the documents before and after.

        A lock keeps others from changing them meanwhile. If ``update`` raises, nothing is changed.
        """
        with self.tables.alone(RESOURCES):
            before = self.documents()
            after = update(list(before))
            if after != before:
                rows = [(WAREHOUSE_FORMAT, position, *astuple(document)) for position, document in enumerate(after)]
                self.tables.replace(RESOURCES, rows)
                self._append(events_of_change(manifests(before), manifests(after), datetime.now(timezone.utc)))
        return before, after

    def note(self, kind: str, name: str, reason: str, message: str) -> None:
        """Append an event of a resource."""
        self._append([Event(datetime.now(timezone.utc), NORMAL, reason, kind, name, message)])

    def warn(self, kind: str, name: str, reason: str, message: str) -> None:
        """Append an event of a resource, unless its last one is the same at another time."""
        event = Event(datetime.now(timezone.utc), WARNING, reason, kind, name, message)
        last = self._last_of(kind, name)
        if last is None or replace(last, at=event.at) != event:
            self._append([event])

    def note_failure(self, kind: str, name: str, message: str, worked: datetime | None) -> None:
        """Append the event that a run stopped a resource, with the error.

        It is left out if the last event is the same, less than an hour old, and newer than the last batch, whose time
        ``worked`` is.
        """
        event = Event(datetime.now(timezone.utc), WARNING, FAILED, kind, name, message)
        last = self._last_of(kind, name)
        is_known = last is not None and replace(last, at=event.at) == event and event.at - last.at < _KNOWN_FOR
        if last is None or not is_known or (worked is not None and worked > last.at):
            self._append([event])

    def _last_of(self, kind: str, name: str) -> Event | None:
        of_one = [one for one in self.events() if (one.kind, one.name) == (kind, name)]
        return of_one[-1] if of_one else None

    def note_waiting(self, waits: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], datetime]:
        """Append the events of resources that wait, or no longer wait. Returns since when each one waits.

        ``waits`` has their reasons by kind and name.
        """
        new, since = events_of_waiting(self.events(), waits, datetime.now(timezone.utc))
        self._append(new)
        return since

    def _append(self, events: Sequence[Event]) -> None:
        if events:
            self.tables.append(EVENTS, [astuple(event) for event in events])

    def events(self) -> list[Event]:
        """All events, oldest first."""
        return sorted(Event(**row) for row in self.tables.rows(EVENTS))

    @property
    def version(self) -> int | None:
        """The version of the documents: it differs after each change."""
        return self.tables.version(RESOURCES)

    def changed(self, every: float) -> Callable[[], bool]:
        """A function that returns whether the documents changed since this call.

        It reads the version at most once in ``every`` seconds, and returns False in between.
        """
        known, looked = self.version, time.monotonic()

        def look() -> bool:
            nonlocal looked
            if time.monotonic() - looked < every:
                return False
            looked = time.monotonic()
            return self.version != known

        return look
