"""Unhealthy resources: those that do not do their work, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from kaspr_delta.control.events import FAILED, REBUILD_REQUIRED, RESUMED, WAITING, Event

# The newest event of these says whether a resource has failed.
_DECISIVE = frozenset({FAILED, REBUILD_REQUIRED, RESUMED, WAITING})


def late(waits: Mapping[str, str], since: Mapping[str, datetime], grace: timedelta, now: datetime) -> dict[str, str]:
    """The resources that have waited for longer than ``grace``, with their reasons."""
    return {name: waits[name] for name, began in since.items() if name in waits and now - began > grace}


def failed(
    events: Iterable[Event], names: Mapping[tuple[str, str], str], batches: Mapping[str, datetime], after: datetime
) -> Iterator[tuple[str, str]]:
    """The resources that failed ``after`` a moment and have had no batch since, with their errors.

    ``events`` are oldest first, ``names`` have ``kind/name`` by the kind and name in an event, and ``batches`` the time
    of each one's last batch. A resource without news has no batch that shows that it is mended: so old failures do not
    count.
    """
    newest = {(event.kind, event.name): event for event in events if event.reason in _DECISIVE}
    for id_, event in newest.items():
        name = names.get(id_)
        if name is None or event.reason != FAILED or event.at < after:
            continue
        if name not in batches or batches[name] < event.at:
            yield name, event.first_line
