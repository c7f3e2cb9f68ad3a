from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaspr_delta.errors import UsageError
from kaspr_delta.jobs import Deployment
from kaspr_delta.jobs.cost import (
    COMPARED_STATEMENTS,
    ENDPOINT_STATEMENTS,
    IDLE_STATEMENTS,
    INTERNAL_STATEMENTS,
    MOST_SOURCE_STATEMENTS,
    NONE,
    DailyCost,
    Span,
    daily_costs,
)
from kaspr_delta.jobs.job import JobBuilder
from kaspr_delta.jobs.principal import Principal
from kaspr_delta.jobs.resources import builder_of
from kaspr_delta.jobs.storage import Storage
from kaspr_delta.jobs.usage import statements_query, usage_query
from kaspr_delta.jobs.work import work_of
from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.spec.loader import load_path
from tests.manifests import plan_of
from tests.unit.jobs.deployments import ALL_DEPLOYMENTS
from tests.unit.jobs.plans import agent, join, plan, plans

# Four resources in a row; two of them read a topic, the join two tables, the last one a channel.
SHOP = plan(
    agent("orders", topic="raw-orders", tables=("orders",)),
    agent("products", topic="raw-products", tables=("products",)),
    join("priced", "orders", "products"),
    agent("mails", join="priced"),
)
SOURCES = 5
ORDER_SYSTEM = Path(__file__).parents[3] / "bundles" / "order-system"
EVERY_KIND = Path(__file__).parent / "applications" / "every-kind"


def costs(shop: Plan, **settings: Any) -> dict[str, DailyCost]:
    return {one.layout: one for one in daily_costs(shop, Deployment(**settings))}


def number(value: float) -> Span:
    return Span(value, value)


def test_each_task_of_a_serverless_run_is_a_start() -> None:
    found = costs(SHOP, schedule="0 0 * * * ?")
    assert [name for name, one in found.items() if one.is_deployed] == ["one"]
    assert {name: (one.jobs, one.tasks) for name, one in found.items()} == {
        "one": (1, 1),
        "group": (1, 4),
        "resource": (1, 4),
    }
    assert {one.runs for one in found.values()} == {number(24)}
    assert [one.starts for one in found.values()] == [number(24), number(96), number(96)]
    assert found["one"].statements == number(24 * (IDLE_STATEMENTS + MOST_SOURCE_STATEMENTS))
    assert found["group"].statements == number(24 * (4 * IDLE_STATEMENTS + SOURCES))


def test_a_table_that_several_resources_follow_is_asked_for_once_in_a_task() -> None:
    audited = plan(join("priced", "orders", "products"), agent("mails", join="priced"), agent("audit", join="priced"))
    found = costs(audited, schedule="0 0 * * * ?")
    assert found["one"].statements == number(24 * (IDLE_STATEMENTS + MOST_SOURCE_STATEMENTS))
    assert found["group"].statements == number(24 * (3 * IDLE_STATEMENTS + 4))


def test_what_is_asked_beside_logs_and_tables_counts_once_in_a_task() -> None:
    compared = plan_of(
        "shop",
        """
KasprApp/shop: {topics: {lines: {files: {path: /in, format: json}}, more: {files: {path: /more, format: json}}}}
KasprAgent/copy: {input: {topic: {name: "lines,more"}}, output: {topics: [{name: copied}]}}
KasprTable/a: {}
KasprTable/b: {from: {table: a}, groupBy: {python: "def one(value): return 1"}, count: {}, onChange: side-by-side}
""",
    )
    found = costs(compared, schedule="0 0 * * * ?")
    one = IDLE_STATEMENTS + MOST_SOURCE_STATEMENTS + COMPARED_STATEMENTS + 3 * ENDPOINT_STATEMENTS
    assert found["one"].statements == number(24 * one)
    topic, agent_of_two, table = 2 * ENDPOINT_STATEMENTS, 2, 1 + COMPARED_STATEMENTS
    assert found["resource"].statements == number(24 * (4 * IDLE_STATEMENTS + 2 * topic + agent_of_two + table))


def test_nothing_is_asked_about_grants_and_tables_of_others_but_there_may_be_a_second_schema() -> None:
    of_others = plan_of(
        "shop", "KasprTable/a: {source: {table: c.s.a, key: [id]}}\nKasprTable/b: {from: {table: a}, count: {}}"
    )
    idle = costs(of_others, schedule="0 0 * * * ?")["one"].statements
    assert idle == number(24 * (IDLE_STATEMENTS + 1))
    granted = {"readers": (Principal.of("ann@example.com"),), "owners": (Principal.of("team"),)}
    found = costs(SHOP, schedule="0 0 * * * ?", internal_suffix="_internal", **granted)["one"].statements
    assert found == number(24 * (IDLE_STATEMENTS + MOST_SOURCE_STATEMENTS + INTERNAL_STATEMENTS))


def test_the_tasks_of_a_run_share_a_cluster() -> None:
    found = costs(SHOP, compute="cluster", layout="group")
    assert found["group"].is_deployed
    assert {one.starts for one in found.values()} == {number(96)}


def test_runs_that_updates_start_lie_between_the_clock_and_one_a_minute() -> None:
    (shop,), _ = build_plans(load_path(ORDER_SYSTEM))
    found = costs(shop, trigger="table_update")
    assert found["one"].runs == Span(1, 1 + 24 * 60)
    assert found["group"].starts == found["one"].runs * 4
    with pytest.raises(UsageError, match="reads no table that others write"):
        costs(SHOP, trigger="table_update")


def test_a_run_without_end_starts_nothing_and_asks_in_rounds() -> None:
    found = costs(SHOP, mode="continuous", every="1m", waiting="note")
    assert list(found) == ["one", "group"]  # resources that share tables cannot run in several jobs without end
    assert [(one.endless, one.runs, one.starts) for one in found.values()] == [(1, NONE, NONE), (4, NONE, NONE)]
    assert found["one"].statements == found["group"].statements == Span(0, SOURCES * 24 * 60)


def test_beside_a_run_without_end_a_check_starts_each_hour_and_on_clusters_each_day() -> None:
    assert costs(SHOP, mode="continuous")["one"].starts == number(24)
    assert costs(SHOP, mode="continuous", compute="cluster")["one"].starts == number(1)


def test_a_run_without_end_starts_nothing_on_serverless_compute_either() -> None:
    found = costs(SHOP, mode="continuous", compute="serverless", waiting="note")
    assert [(one.endless, one.starts) for one in found.values()] == [(1, NONE), (4, NONE)]


def test_the_task_that_only_gives_the_verdict_starts_no_compute() -> None:
    made: dict[str, Any] = dict(builder_of(SHOP, Deployment()).scheduled(work_of(SHOP)).as_dict())
    assert len(made["tasks"]) == costs(SHOP)["group"].tasks + 1


def test_tasks_by_their_own_schedules_count_and_those_that_people_start_do_not() -> None:
    (shop,), _ = build_plans(load_path(EVERY_KIND))
    own = [task for task in shop.tasks if task.schedule is not None]
    found = costs(shop, layout="one")["one"]
    # One is of seconds: a run that never ends keeps its schedule, and has a check beside it.
    assert (found.jobs, found.endless) == (2 + len(own), 1)
    assert len(own) < len(shop.tasks)
    assert found.runs == number(found.runs.least) != NONE


@given(plans(), st.sampled_from(ALL_DEPLOYMENTS))
def test_a_deployment_has_one_of_the_layouts_and_no_run_without_a_start(
    any_plan: Plan, settings: dict[str, Any]
) -> None:
    found = list(costs(any_plan, **settings).values())
    assert sum(one.is_deployed for one in found) == 1
    for one in found:
        assert one.runs.least <= one.starts.least <= one.runs.least * one.tasks
        assert one.runs.most <= one.starts.most


def test_the_queries_find_the_jobs_by_the_tags_that_they_have() -> None:
    deployment = Deployment(target="it's")
    builder = JobBuilder(SHOP, deployment, Storage.of(SHOP, deployment), "r1")
    tags: Any = builder.by_the_clock("shop").tags
    for query in (usage_query(SHOP, deployment), statements_query(SHOP, deployment)):
        asked = {name: value for name, value in tags.items() if f"tags['{name}'] = " in query}
        assert asked.keys() == tags.keys() - {"manifests"}  # they differ from deployment to deployment
        assert "tags['application'] = 'shop' AND tags['target'] = 'it\\'s'" in query
        assert "app_name =" not in query


def test_the_query_for_dbu_has_the_app_where_there_is_one() -> None:
    (shop,), _ = build_plans(load_path(EVERY_KIND))
    query = usage_query(shop, Deployment(target="prod", sql_warehouse="w1"))
    assert "OR usage.usage_metadata.app_name = 'every-kind-prod')" in query
