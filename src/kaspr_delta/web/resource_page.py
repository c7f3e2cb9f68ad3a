"""The pages of one resource: its status, its batches, its last change, its rows now and then; and of one topic."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from kaspr_delta.control.events import Event
from kaspr_delta.control.kubectl import yaml_text
from kaspr_delta.control.registry import Document
from kaspr_delta.control.resource_status import events_of, kept_in, resource_statuses
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import TableTableJoinPlan
from kaspr_delta.plan.definition.resources import ResourceRef, TopicPlan
from kaspr_delta.spec.kinds import kind_called
from kaspr_delta.storage.layout import EVENTS, PROGRESS
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.web.access import Visitor
from kaspr_delta.web.past import Past
from kaspr_delta.web.picture import edges_of
from kaspr_delta.web.store import WebStore

# Records on the page of a topic.
_RECORDS = 20
# Batches in the chart.
_BATCHES = 40
# Events on a page: the newest.
_EVENTS = 1_000
_NO_ROWS = {"last": None, "then": None, "versions": range(0), "key": "", "asks_key": False, "why_no_rows": ""}


def resource_page(
    store: WebStore, plan: Plan, documents: list[Document], ref: ResourceRef, visitor: Visitor
) -> dict[str, Any]:
    """The values for the template of a resource that has a document."""
    with ThreadPoolExecutor() as at_once:  # each may be a statement of a second
        counting = at_once.submit(store.figures, plan, ref)
        rows = at_once.submit(readable, f"the rows of {ref}", partial(_rows, store, plan, ref, visitor))
        happening = at_once.submit(readable, "events", partial(_events, store, ref))
        batches = _batches_of(store, ref)
    figures, events, found = counting.result(), happening.result(), rows.result()
    (one,) = resource_statuses(documents, plan, figures, ref)
    return {
        "title": str(ref),
        "one": one,
        "letters": figures.letters_of(str(ref)),
        "spec": yaml_text(one.resource["spec"]) if one.resource.get("spec") else "",
        "events": events if isinstance(events, str) else events_of(events, one.document),
        "batches": batches,
        **({**_NO_ROWS, "why_no_rows": found} if isinstance(found, str) else found),
    }


def topic_page(store: WebStore, plan: Plan, topic: TopicPlan) -> dict[str, Any]:
    """The values for the template of a topic: its records, its binding, and the resources that it connects."""
    table, ref, label = topic.delta_name, topic.ref, str(topic.ref)
    with ThreadPoolExecutor() as at_once:
        counting = at_once.submit(store.figures, plan, ref)
        reading = at_once.submit(
            readable, f"'{table}'", lambda: store.system.newest(table, ("timestamp", "seq"), _RECORDS)
        )
        batches = _batches_of(store, ref)
    figures, edges = counting.result(), edges_of(plan)
    return {
        "title": label,
        "topic": topic,
        "rows": figures.rows(table),
        "lag": figures.lag(ref),
        "letters": figures.letters_of(label),
        "feeders": sorted({edge.source for edge in edges if edge.target == label}),
        "readers": sorted({edge.target for edge in edges if edge.source == label}),
        "newest": reading.result(),
        "batches": batches,
    }


def _past(store: WebStore, plan: Plan, ref: ResourceRef) -> Past | None:
    """The past of the table in which a resource keeps its rows; None if there is none."""
    keeps = kept_in(plan, ref)
    if keeps is None:
        return None
    table = plan.table(ref.name) if ref.kind == "table" else None
    if table is not None and table.typed is not None:
        return Past.of(store.tables, keeps, table.typed.key, is_typed=True)
    join = plan.join(ref.name) if ref.kind == "join" else None
    return Past.of(store.tables, keeps, is_typed=isinstance(join, TableTableJoinPlan) and join.select is not None)


def _events(store: WebStore, ref: ResourceRef) -> list[Event]:
    """The events of all resources of this kind and name, the oldest first."""
    named = {"kind": kind_called(ref.kind), "name": ref.name}
    return sorted(Event(**row) for row in store.system.newest(EVENTS, ("at",), _EVENTS, named))


def _batches_of(store: WebStore, ref: ResourceRef) -> list[dict[str, Any]] | str:
    """The last batches of a resource, the oldest first; the reason if they cannot be read."""
    order, where = ("checkpoint", "batch"), {"resource": str(ref)}
    found = readable("batches", lambda: store.system.newest(PROGRESS, order, _BATCHES, where))
    return found if isinstance(found, str) else found[::-1]


def _rows(store: WebStore, plan: Plan, ref: ResourceRef, visitor: Visitor) -> dict[str, Any]:
    """The rows of a resource, the newest or those of a version, and its last change."""
    past = _past(store, plan, ref)
    if past is None or not past.versions:
        return _NO_ROWS
    asked, key = visitor.query.get("version", ""), visitor.query.get("key", "").strip()
    version = int(asked) if asked.isdecimal() and len(asked) < len(str(2**63)) else past.versions.stop - 1
    with ThreadPoolExecutor() as at_once:
        last = at_once.submit(past.last_change)
        then = past.then(version, key)
    return {
        "last": last.result(),
        "then": then,
        "versions": past.versions,
        "key": key,
        "asks_key": past.has_text_keys,
        "why_no_rows": "",
    }
