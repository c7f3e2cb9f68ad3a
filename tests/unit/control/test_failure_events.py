"""Events of failures: one an hour while a failure goes on, and one for a failure after a batch."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from kaspr_delta.control.events import FAILED, WARNING, Event
from kaspr_delta.control.registry import Registry
from kaspr_delta.storage.layout import EVENTS
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.system_tables import NativeSystemTables

NOW = datetime.now(timezone.utc)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("age", "message", "worked", "events"),
    [
        (10, "lost", None, 1),
        (10, "lost", 20, 1),
        (10, "lost", 5, 2),  # it worked meanwhile
        (61, "lost", None, 2),
        (10, "other", None, 2),
    ],
)
def test_a_failure_is_an_event_unless_it_is_known(
    delta: DeltaRs, age: int, message: str, worked: int | None, events: int
) -> None:
    system = NativeSystemTables(delta)
    system.append(EVENTS, [(NOW - age * MINUTE, WARNING, FAILED, "KasprAgent", "ingest", "lost")])
    registry = Registry(system, "shop")
    registry.note_failure("KasprAgent", "ingest", message, None if worked is None else NOW - worked * MINUTE)
    assert len(registry.events()) == events


def test_the_first_failure_is_an_event(delta: DeltaRs) -> None:
    registry = Registry(NativeSystemTables(delta), "shop")
    registry.note_failure("KasprAgent", "ingest", "lost", None)
    (found,) = registry.events()
    assert found == Event(found.at, WARNING, FAILED, "KasprAgent", "ingest", "lost")
