"""The page of all that happened lately: the newest batches and events of all resources."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.storage.layout import EVENTS, PROGRESS
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.web.store import WebStore

_BATCHES, _EVENTS = 60, 100


def activity_page(store: WebStore) -> dict[str, Any]:
    """The values for the template."""
    with ThreadPoolExecutor() as at_once:
        events = at_once.submit(readable, "events", lambda: store.system.newest(EVENTS, ("at",), _EVENTS))
        batches = readable("batches", lambda: store.system.newest(PROGRESS, ("at",), _BATCHES))
        found = events.result()
    if not isinstance(found, str):
        found = [{**one, "ref": str(ResourceRef(short_kind(one["kind"]), one["name"]))} for one in found]
    return {"title": "activity", "batches": batches, "events": found}
