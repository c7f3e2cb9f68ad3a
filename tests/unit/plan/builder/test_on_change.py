from __future__ import annotations

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.loader import load_text
from tests.manifests import manifests

RESOURCES = {
    "KasprTable/orders": "",
    "KasprTable/products": "",
    "KasprJoin/priced": 'leftTable: orders, rightTable: products, "on": key',
    "KasprJoin/seen": 'leftStream: {topic: clicks}, rightTable: products, "on": key',
    "KasprTable/per-order": "from: {table: orders}, count: {}",
    "KasprTable/per-pair": "from: {join: priced}, count: {}",
    "KasprTable/per-click": "from: {topic: clicks}, count: {}",
    "KasprTable/per-view": "from: {join: seen}, count: {}",
    "KasprTable/later": "from: {table: missing}, count: {}",
}
OF_TABLES = ["join/priced", "table/later", "table/per-order", "table/per-pair"]


def reacting(reaction: str, app: str = "", **own: str) -> tuple[list[str], list[str]]:
    """The resources with this reaction, and the errors. ``own`` is onChange by the name of a resource."""
    written = {"KasprApp/shop": app}
    for resource, spec in RESOURCES.items():
        change = own.get(resource.partition("/")[2].replace("-", "_"))
        written[resource] = f"{{{', '.join(filter(None, [spec, f'onChange: {change}' if change else '']))}}}"
    text = "".join(f"{resource}: {spec or '{}'}\n" for resource, spec in written.items())
    (plan,), findings = build_plans(load_text(manifests("shop", text), "m.yaml"))
    found = sorted(str(ref) for ref, _ in plan.on_change if plan.reaction(ref) == reaction)
    return found, [one.message for one in findings if one.severity is Severity.ERROR]


@pytest.mark.parametrize("app", ["", "{config: {onChange: refuse}}"])
def test_a_changed_definition_is_refused_unless_it_says_otherwise(app: str) -> None:
    assert reacting("rebuild", app) == ([], [])
    assert reacting("rebuild", app, priced="rebuild", per_order="rebuild") == (["join/priced", "table/per-order"], [])


def test_the_application_speaks_for_resources_whose_state_is_made_from_tables() -> None:
    app = "{config: {onChange: rebuild}}"
    assert reacting("rebuild", app) == (OF_TABLES, [])
    assert reacting("side-by-side", app, priced="side-by-side") == (["join/priced"], [])
    assert reacting("rebuild", app, priced="refuse") == (OF_TABLES[1:], [])


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("seen", "join/seen"),
        ("per_click", "table/per-click"),
        ("per_view", "table/per-view"),
        ("products", "table/products"),
    ],
)
def test_a_resource_over_streams_or_without_a_state_cannot_be_made_anew(name: str, ref: str) -> None:
    for reaction in ("rebuild", "side-by-side"):
        refused = [f"{ref} has no state that could be made anew from tables"]
        assert reacting(reaction, **{name: reaction}) == ([], refused)
    assert reacting("rebuild", **{name: "refuse"}) == ([], [])
