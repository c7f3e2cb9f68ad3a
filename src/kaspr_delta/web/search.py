"""Search: resources and topics by name, description and manifest; and the tables that have a key."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kaspr_delta.control.documents import Document
from kaspr_delta.control.resource_status import kept_in
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.serde.joined_text import key_columns
from kaspr_delta.serde.json_text import key_texts
from kaspr_delta.spec.kinds import short_kind
from kaspr_delta.storage.native.readable import readable
from kaspr_delta.storage.page_reads import PageReads, RowFilter, RowsFound
from kaspr_delta.web.parts.listing import Asked
from kaspr_delta.web.store import WebStore

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Hit:
    """A resource or topic, and the line of its manifest that contains the text; empty if its name does."""

    ref: ResourceRef
    line: str = ""


def search_page(store: WebStore, plan: Plan, documents: list[Document], asked: Asked) -> dict[str, Any]:
    """The values for the template. Keys are looked up only if the address asks for it: each table is a query."""
    looks_up = bool(asked.find and asked.query.get("keys"))
    hits = _hits(plan, documents, asked.find.lower()) if asked.find else ()
    return {
        "title": "search",
        "find": asked.find,
        "asked": asked,
        "hits": sorted(hits, key=lambda hit: bool(hit.line)),
        "looks_up": looks_up,
        **(_looked_up(store.tables, plan, asked.find) if looks_up else {"holders": [], "unknown": []}),
    }


def _hits(plan: Plan, documents: list[Document], text: str) -> Iterator[Hit]:
    for topic in plan.topics:
        if text in topic.name.lower():
            yield Hit(topic.ref)
    for document in documents:
        ref = ResourceRef(short_kind(document.kind), document.name)
        if text in str(ref).lower():
            yield Hit(ref)
        elif line := next((line for line in document.text.splitlines() if text in line.lower()), ""):
            yield Hit(ref, line.strip())


def _looked_up(tables: PageReads, plan: Plan, key: str) -> dict[str, list[Any]]:
    """The tables and results that have a row with a key, and those that cannot be read, with the reasons."""
    refs = [ref for one in (*plan.tables, *plan.joins) if kept_in(plan, ref := one.ref)]
    with ThreadPoolExecutor(_AT_ONCE) as at_once:
        found = at_once.map(lambda ref: readable(f"the rows of {ref}", lambda: _has(tables, plan, ref, key)), refs)
        pairs = list(zip(refs, found, strict=True))
    return {
        "holders": [ref for ref, has in pairs if has is True],
        "unknown": [(ref, reason) for ref, reason in pairs if isinstance(reason, str)],
    }


def _has(tables: PageReads, plan: Plan, ref: ResourceRef, key: str) -> bool:
    table, names = kept_in(plan, ref) or "", key_columns(plan, ref)
    columns = tables.columns(table)
    if len(names) != 1 or names[0] not in columns or columns[names[0]].name != "STRING":
        return False
    one = {names[0]: columns[names[0]]}
    found = tables.rows(table, None, one, RowFilter({names[0]: tuple(key_texts(key))}), (), 1)
    return isinstance(found, RowsFound) and found.count > 0
