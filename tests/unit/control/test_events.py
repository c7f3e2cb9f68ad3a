from __future__ import annotations

from datetime import datetime, timezone

from kaspr_delta.control.events import Event, events_of_waiting

BEDS, WARDS = ("KasprJoin", "beds"), ("KasprTable", "wards")
OFF, GONE = "waits: its change data feed is off", "waits: it does not exist"


def at(hour: int) -> datetime:
    return datetime(2026, 1, 1, hour, tzinfo=timezone.utc)


def test_a_resource_waits_since_the_first_run_that_found_it_waiting() -> None:
    known: list[Event] = []
    story = [  # the hour, who waits, the new events, and since when they wait
        (1, {BEDS: OFF, WARDS: OFF}, [("beds", "Waiting"), ("wards", "Waiting")], {BEDS: 1, WARDS: 1}),
        (2, {BEDS: OFF, WARDS: GONE}, [("wards", "Waiting")], {BEDS: 1, WARDS: 1}),
        (3, {WARDS: GONE}, [("beds", "Resumed")], {WARDS: 1}),
        (4, {BEDS: OFF, WARDS: GONE}, [("beds", "Waiting")], {BEDS: 4, WARDS: 1}),
        (5, {}, [("wards", "Resumed"), ("beds", "Resumed")], {}),
        (6, {}, [], {}),
    ]
    for hour, waits, events, since in story:
        new, found = events_of_waiting(known, waits, at(hour))
        assert sorted((event.name, event.reason) for event in new) == sorted(events)
        assert found == {id_: at(first) for id_, first in since.items()}
        known += new
