from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaspr_delta.control.rebuilds import rebuilds_in
from kaspr_delta.engine.batch.checkpoint import Start
from kaspr_delta.engine.batch.comparison import Comparison
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.plan.definition.state_definitions import compared_with, definition_of
from kaspr_delta.spec.loader import load_text
from tests.manifests import manifests

JOIN = ResourceRef("join", "priced")
CHANGED = "join/priced cannot go on: its type has changed since its state was made. "
ASKED = f"{CHANGED}Bring it up to date with: kaspr-delta rebuild join/priced"
COMPARED = (
    "Its result stays as it was, compared {} from orders at version 4, products at version 2: rows added: 1,"
    " removed: 0, changed: 2, equal: 3; differences__priced has those that differ. Take the new one with:"
    " kaspr-delta rebuild join/priced; or keep the old one: apply the old definition again"
)
VERSIONS = {"orders": 4, "products": 2}


def planned(on_change: str) -> Plan:
    spec = f'{{leftTable: orders, rightTable: products, "on": key, type: left, onChange: {on_change}}}'
    text = manifests("shop", f"KasprTable/orders: {{}}\nKasprTable/products: {{}}\nKasprJoin/priced: {spec}\n")
    (plan,), _ = build_plans(load_text(text, "m.yaml"))
    return plan


def needed(on_change: str, *compared: Mapping[str, str], without: str = "") -> Mapping[ResourceRef, str]:
    """The rebuilds of a join whose type has changed, after comparisons with these definitions, the newest first."""
    plan = planned(on_change)
    before = Start({**definition_of(plan, JOIN), "type": "inner"}, {})
    texts = [str(Comparison(one, VERSIONS, "differences__priced", 1, 0, 2, 3)) for one in compared]
    tables: dict[str, list[dict[str, Any]]] = {
        "channel__priced_channel": [{"start": before.to_json()}],
        "differences__priced": [{"many": 3}],
        "_kaspr_events": [{"kind": "KasprJoin", "name": "priced", "message": text} for text in texts],
    }
    return rebuilds_in(plan, lambda table, _: [] if table == without else tables.get(table, []))


OURS, OTHER = definition_of(planned("refuse"), JOIN), {"type": "outer"}


def test_a_comparison_with_the_applied_definition_tells_its_counts_and_both_ways_on() -> None:
    assert needed("side-by-side", OURS, OTHER) == {JOIN: CHANGED + COMPARED.format(compared_with(OURS))}


def test_without_one_or_after_one_with_another_definition_a_rebuild_is_asked_for() -> None:
    assert needed("side-by-side") == needed("side-by-side", OTHER, OURS) == {JOIN: ASKED}


def test_a_comparison_whose_table_is_gone_does_not_count() -> None:
    assert needed("side-by-side", OURS, without="differences__priced") == {JOIN: ASKED}


def test_only_a_resource_that_is_compared_by_itself_shows_it() -> None:
    assert needed("refuse", OURS) == {JOIN: ASKED}
    assert needed("rebuild", OURS) == {}
