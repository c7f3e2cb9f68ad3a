from __future__ import annotations

from typing import get_args

from hypothesis import given

from kaspr_delta.jobs.work import EVERYTHING, WAITING, Layout, task_key, waiting_work, work_of
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.plan.definition.resources import ResourceRef
from tests.manifests import plan_of
from tests.unit.jobs.plans import agent, join, plan, plans


def lines_of(of: Plan) -> list[str]:
    """One line per unit of work: its resources, and the tasks before it."""
    return [f"{unit.title} <- {', '.join(unit.after)}".rstrip(" <-") for unit in work_of(of)]


def test_each_unit_comes_after_those_that_feed_it() -> None:
    enrichment = plan(
        agent("ingest-orders", topic="raw-orders", tables=("orders",)),
        agent("ingest-products", topic="raw-products", tables=("products",)),
        join("orders-products", "orders", "products"),
        agent("enrich", join="orders-products", sends=("enriched",)),
    )
    assert lines_of(enrichment) == [
        "agent/ingest-orders",
        "agent/ingest-products",
        "join/orders-products <- agent_ingest-orders, agent_ingest-products",
        "agent/enrich <- join_orders-products",
    ]


def test_agents_that_share_a_table_are_one_unit() -> None:
    assert lines_of(plan(agent("a", topic="x", tables=("t",)), agent("b", topic="y", tables=("t",)))) == [
        "agent/a + agent/b"
    ]


def test_stateless_agents_are_units_of_their_own() -> None:
    assert lines_of(plan(agent("a", topic="x"), agent("b", topic="x"))) == ["agent/a", "agent/b"]


def test_resources_that_feed_one_another_are_one_unit() -> None:
    retry = plan(agent("work", topic="jobs", sends=("failed",)), agent("again", topic="failed", sends=("jobs",)))
    assert lines_of(retry) == ["agent/again + agent/work"]


def test_a_join_between_agents_of_one_group_joins_their_unit() -> None:
    enclosed = plan(
        agent("first", topic="in", tables=("left", "seen")),
        join("j", "left", "right"),
        agent("last", join="j", tables=("seen",)),
    )
    (unit,) = work_of(enclosed)
    assert [str(resource) for resource in unit.resources] == ["agent/first", "join/j", "agent/last"]


def test_a_dependency_that_others_imply_is_left_out() -> None:
    diamond = plan(
        agent("a", topic="in", sends=("x", "y")),
        agent("b", topic="x", sends=("z", "y")),
        agent("c", topic="y"),
    )
    assert lines_of(diamond) == ["agent/a", "agent/b <- agent_a", "agent/c <- agent_b"]


def test_a_unit_has_the_location_and_description_of_its_first_resource() -> None:
    (unit,) = work_of(plan(agent("a", topic="x", line=12, description="Counts")))
    assert (str(unit.location), unit.description) == ("bundles/shop/agents.yaml:12:1", "Counts")


def test_an_application_in_which_everything_waits_has_a_task_that_says_so() -> None:
    waits = plan_of("shop", 'KasprJoin/priced: {leftTable: orders, rightTable: products, "on": key}')
    assert waits.waiting
    for layout in get_args(Layout):
        (unit,) = work_of(waits, layout)
        assert (unit.key, unit.resources) == (EVERYTHING, ())
    assert work_of(plan_of("shop", "KasprTable/orders: {}")) == ()


def test_resources_that_wait_have_a_task_of_their_own_on_which_no_other_one_depends() -> None:
    manifests = """
KasprTable/orders: {}
KasprTable/sums: {from: {table: orders}, count: {}}
KasprTable/of-sums: {from: {table: sums}, count: {}}
KasprAgent/ingest: {input: {topic: {name: raw}}, output: {topics: [{name: done}]}}
KasprJoin/priced: {leftTable: orders, rightTable: products, "on": key}
KasprTable/of-priced: {from: {table: priced}, count: {}}
"""
    shop = plan_of("shop", manifests)
    work = work_of(shop, "group")
    (unit,) = waiting_work(shop, work)
    assert (unit.key, unit.title) == (WAITING, "join/priced + table/of-priced")
    assert unit.after == ()
    assert waiting_work(shop, work_of(shop, "one")) == ()
    assert waiting_work(plan(agent("a", topic="x")), ()) == ()


def test_task_keys_are_valid_and_differ_between_resources() -> None:
    names = ["a.b", "a_b", "a-b", "a" * 200, "a" * 201]
    keys = [task_key((ResourceRef("agent", name),)) for name in names]
    keys.append(task_key((ResourceRef("join", "a-b"),)))
    keys.append(task_key((ResourceRef("agent", "a-b"), ResourceRef("agent", "c"))))
    assert len(set(keys)) == len(keys)
    assert all(len(key) <= 100 and key.replace("-", "").replace("_", "").isalnum() for key in keys)


def test_a_task_key_contains_the_kind_and_name_of_its_resource() -> None:
    assert task_key((ResourceRef("join", "orders-products-join"),)) == "join_orders-products-join"


@given(plans())
def test_every_resource_is_in_exactly_one_unit(any_plan: Plan) -> None:
    resources = [resource for unit in work_of(any_plan) for resource in unit.resources]
    assert sorted(resources) == sorted([*(a.ref for a in any_plan.agents), *(j.ref for j in any_plan.joins)])


@given(plans())
def test_units_come_only_after_earlier_ones(any_plan: Plan) -> None:
    known: set[str] = set()
    for unit in work_of(any_plan):
        assert set(unit.after) <= known
        assert unit.key not in known
        known.add(unit.key)


@given(plans())
def test_agents_of_a_table_group_are_in_one_unit(any_plan: Plan) -> None:
    unit_of = {resource: unit.key for unit in work_of(any_plan) for resource in unit.resources}
    assert all(len({unit_of[member] for member in group}) == 1 for group in any_plan.groups)


def test_a_made_table_is_a_unit_of_work_after_its_origin() -> None:
    built = plan_of(
        "shop",
        """
KasprTable/users: {}
KasprTable/totals: {description: Views per user, from: {join: seen}, count: {}}
KasprJoin/seen: {leftStream: {topic: views}, rightTable: users, on: key}
""",
    )
    first, second = work_of(built)
    assert (first.key, first.after) == ("join_seen", ())
    assert (second.key, second.after, second.description) == ("table_totals", ("join_seen",), "Views per user")
    assert second.location.line == 8
