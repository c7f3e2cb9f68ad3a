"""The page of one resource: its status, its batches, its last change, its rows now and then, and parts of its kind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from kaspr_delta.control.documents import Document
from kaspr_delta.control.events import Event, Reference
from kaspr_delta.control.follow import Followed, Follower
from kaspr_delta.control.kubectl import yaml_text
from kaspr_delta.control.resource_status import events_of, kept_in, resource_statuses
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.joins import TableTableJoinPlan
from kaspr_delta.plan.definition.resources import AgentPlan, ResourceRef, TaskPlan
from kaspr_delta.serde.joined_text import json_of
from kaspr_delta.serde.json_text import key_texts
from kaspr_delta.spec.kinds import kind_called, short_kind
from kaspr_delta.storage.layout import EVENTS, PROGRESS
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.page_reads import RowsFound
from kaspr_delta.web.parts.listing import Asked, Listing, listing
from kaspr_delta.web.parts.neighbours import neighbours
from kaspr_delta.web.parts.output import output
from kaspr_delta.web.parts.runs import charts_of
from kaspr_delta.web.parts.schedule import in_words, next_runs
from kaspr_delta.web.past import Past, unfolded_changes
from kaspr_delta.web.store import WebStore

# Batches in the chart.
_BATCHES = 40
# Events on a page: the newest.
_EVENTS = 1_000
_NO_ROWS = {"last": None, "then": None, "listing": None, "versions": range(0), "asks_key": False, "why_no_rows": ""}


def resource_page(
    store: WebStore, plan: Plan, documents: list[Document], ref: ResourceRef, asked: Asked
) -> dict[str, Any]:
    """The values for the template of a resource that has a document."""
    with ThreadPoolExecutor() as at_once:  # each may be a statement of a second
        counting = at_once.submit(store.figures, plan, ref)
        rows = at_once.submit(readable, f"the rows of {ref}", partial(_rows, store, plan, ref, asked))
        happening = at_once.submit(readable, "events", partial(_events, store, ref))
        sending = at_once.submit(readable, f"the output of {ref}", partial(_output, store, plan, ref, asked))
        following = at_once.submit(readable, f"a key of {ref}", partial(_followed, store, plan, ref, asked))
        batches = batches_of(store, ref)
    figures, events, found = counting.result(), happening.result(), rows.result()
    (one,) = resource_statuses(documents, plan, figures, ref)
    return {
        "title": str(ref),
        "one": one,
        "references": [(reference, _target(plan, reference)) for reference in one.references],
        "letters": figures.letters_of(str(ref)),
        "spec": yaml_text(one.resource["spec"]) if one.resource.get("spec") else "",
        "events": events if isinstance(events, str) else events_of(events, one.document)[::-1],
        "neighbours": neighbours(plan, figures, str(ref)),
        "resources": [str(ResourceRef(short_kind(other.kind), other.name)) for other in documents],
        "batches": batches,
        "charts": [] if isinstance(batches, str) else charts_of(batches),
        "asked": asked,
        "output": sending.result(),
        "followed": following.result(),
        "view": None,
        "schedule": _schedule(plan, ref, batches),
        **({**_NO_ROWS, "why_no_rows": found} if isinstance(found, str) else found),
    }


def _target(plan: Plan, reference: Reference) -> ResourceRef | None:
    """The resource that a reference leads to; None if it is not there."""
    if not reference.found:
        return None
    if reference.kind == "KasprApp":
        return ResourceRef("app", reference.name)
    join = plan.channel(reference.name) if reference.kind == "Channel" else plan.join(reference.name)
    return ResourceRef("table", reference.name) if join is None else join.ref


def _schedule(plan: Plan, ref: ResourceRef, batches: list[dict[str, Any]] | str) -> dict[str, Any] | None:
    """The schedule of a task, and its next runs."""
    task = next((task for task in plan.tasks if task.ref == ref), None)
    if task is None:
        return None
    last = batches[-1]["at"] if batches and not isinstance(batches, str) else None
    return {"words": in_words(task.schedule), "next": next_runs(task.schedule, last), "last": last}


def _output(store: WebStore, plan: Plan, ref: ResourceRef, asked: Asked) -> Listing | str | None:
    """The newest output of an agent or task."""
    pipelines: tuple[AgentPlan | TaskPlan, ...] = (*plan.agents, *plan.tasks)
    pipeline = next((one for one in pipelines if one.ref == ref), None)
    return None if pipeline is None else output(store.tables, plan, pipeline, asked)


def _followed(store: WebStore, plan: Plan, ref: ResourceRef, asked: Asked) -> Followed | None:
    """The stations of the key that a join of two tables is asked for; without a key none, None for another resource."""
    join = plan.join(ref.name) if ref.kind == "join" else None
    if not isinstance(join, TableTableJoinPlan):
        return None
    keys = list(key_texts(asked.key)) if asked.key else []
    return Follower(store.tables, plan, join).follow(keys) if keys else Followed((), ())


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


def batches_of(store: WebStore, ref: ResourceRef) -> list[dict[str, Any]] | str:
    """The last batches of a resource, the oldest first; the reason if they cannot be read."""
    order, where = ("checkpoint", "batch"), {"resource": str(ref)}
    found = readable("batches", lambda: store.system.newest(PROGRESS, order, _BATCHES, where))
    return found if isinstance(found, str) else found[::-1]


def _rows(store: WebStore, plan: Plan, ref: ResourceRef, asked: Asked) -> dict[str, Any]:
    """The rows of a resource, the newest or those of a version, and its last change."""
    past = _past(store, plan, ref)
    if past is None or not past.versions:
        return _NO_ROWS
    version = asked.number("version", past.versions.stop - 1)
    json = json_of(plan, ref)
    with ThreadPoolExecutor() as at_once:
        last = at_once.submit(past.last_change)
        then = past.then(version, asked.key, asked.find, asked.reach)
    change = last.result()
    return {
        "last": change,
        "last_changes": unfolded_changes(change.changes if change else (), json),
        "then": then,
        "since": unfolded_changes(then.since, json),
        "listing": listing(asked, RowsFound(then.count, then.rows), json),
        "versions": past.versions,
        "key": asked.key,
        "asks_key": past.has_text_keys,
        "why_no_rows": "",
    }
