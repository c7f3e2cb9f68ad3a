"""The page of a topic: its records by time and by key, its binding, and its neighbours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import TopicPlan
from kaspr_delta.serde.joined_text import json_of
from kaspr_delta.serde.json_text import key_texts
from kaspr_delta.spec.ddl import columns_of
from kaspr_delta.storage.layout import TOPIC
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.page_reads import RowFilter, RowsFound
from kaspr_delta.web.parts.listing import Asked, Listing, listing, moment_of
from kaspr_delta.web.parts.neighbours import neighbours
from kaspr_delta.web.parts.runs import charts_of
from kaspr_delta.web.resource_page import batches_of
from kaspr_delta.web.store import WebStore


def topic_page(store: WebStore, plan: Plan, topic: TopicPlan, asked: Asked) -> dict[str, Any]:
    """The values for the template of a topic."""
    with ThreadPoolExecutor() as at_once:
        counting = at_once.submit(store.figures, plan, topic.ref)
        reading = at_once.submit(readable, f"'{topic.delta_name}'", partial(_records, store, plan, topic, asked))
        batches = batches_of(store, topic.ref)
    figures, label = counting.result(), str(topic.ref)
    return {
        "title": label,
        "topic": topic,
        "rows": figures.rows(topic.delta_name),
        "lag": figures.lag(topic.ref),
        "letters": figures.letters_of(label),
        "neighbours": neighbours(plan, figures, label),
        "listing": reading.result(),
        "asked": asked,
        "batches": batches,
        "charts": [] if isinstance(batches, str) else charts_of(batches),
    }


def _records(store: WebStore, plan: Plan, topic: TopicPlan, asked: Asked) -> Listing | str:
    """The newest records first, of those that the address asks for."""
    where = RowFilter(
        find=asked.find,
        keys=_keys(topic, asked.key) if asked.key else (),
        since=moment_of(asked.query.get("since", "")),
        until=moment_of(asked.query.get("until", "")),
    )
    columns = {one.name: one.type for one in columns_of(TOPIC.columns) if one.name != "seq"}
    found = store.tables.rows(topic.delta_name, None, columns, where, ("timestamp", "seq"), asked.reach, newest=True)
    if isinstance(found, str):
        return found
    return listing(asked, RowsFound(found.count, tuple(map(_record, found.rows))), json_of(plan, topic.ref))


def _record(row: Any) -> dict[str, Any]:
    """A record with its time first; headers, and the mark of a tombstone, only where it has them."""
    headers = {one["key"]: bytes(one["value"] or b"").decode("utf-8", "replace") for one in row["headers"] or ()}
    tombstone = {"tombstone": True} if row["value"] is None else {}
    shown = {"timestamp": row["timestamp"], "key": row["key"], "value": row["value"], **tombstone}
    return {**shown, **({"headers": headers} if headers else {}), "partition": row["partition"]}


def _keys(topic: TopicPlan, key: str) -> tuple[bytes, ...]:
    """The bytes of a key that people type; JSON text may lack its quotes."""
    texts = key_texts(key) if topic.serializers.key == "json" else [key]
    return tuple(text.encode() for text in texts)
