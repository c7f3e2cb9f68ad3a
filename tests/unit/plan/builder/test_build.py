from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.application import Edge, Plan
from kaspr_delta.plan.definition.joins import ForeignKeyJoinPlan
from kaspr_delta.plan.definition.resources import (
    ChannelInput,
    ResourceRef,
    SchedulePlan,
    Serializers,
    TableParameter,
    TopicInput,
)
from kaspr_delta.spec.diagnostics import Severity, has_errors
from kaspr_delta.spec.loader import load_text

JSON = Serializers("json", "json")
ORDERS = ("KasprTable", "orders", "partitions: 6")
PRODUCTS = ("KasprTable", "products", "description: Products")
JOIN = (
    "KasprJoin",
    "orders-products",
    "leftTable: orders\nrightTable: products\nextractor: {python: 'f = lambda v: v'}",
)


def agent(name: str, spec: str) -> tuple[str, str, str]:
    return "KasprAgent", name, spec


def echo(source: str, target: str) -> str:
    return f"input: {{topic: {{name: '{source}'}}}}\noutput: {{topics: [{{name: {target}}}]}}"


def writer(topic: str, table: str) -> str:
    return f"""
input: {{topic: {{name: {topic}}}}}
processors:
  pipeline: [write]
  operations:
    - name: write
      tables: [{{name: {table}, paramName: t}}]
      map: {{python: "write = lambda value, t: value"}}
"""


def test_default_names_are_made_from_the_name_of_the_resource(plan: Callable[..., Plan]) -> None:
    built = plan(ORDERS, PRODUCTS, JOIN)
    assert (built.application_id, built.schema, built.default_partitions) == ("shop-app", "shop", 3)
    (join,) = built.joins
    assert isinstance(join, ForeignKeyJoinPlan)
    assert (join.channel, join.log) == ("orders-products-channel", "channel__orders_products_channel")
    assert (join.result, join.subscriptions) == ("orders_products", "subscriptions__orders_products")
    assert built.tables[0].changelog == "shop-app-orders-changelog"


def test_metadata_name_wins_over_spec_name(plan: Callable[..., Plan]) -> None:
    built = plan(("KasprTable", "orders", "name: other"))
    assert [table.name for table in built.tables] == ["orders"]
    assert [finding.severity for finding in built.findings] == [Severity.NOTE]


def test_topics_take_the_serializers_of_the_application_but_tables_do_not(plan: Callable[..., Plan]) -> None:
    config = "{keySerializer: raw, valueSerializer: pickle, topicPartitions: 5}"
    spec = "input: {topic: {name: a, valueSerializer: json}}\noutput: {topics: [{name: b, keySerializer: binary}]}"
    built = plan(ORDERS, PRODUCTS, agent("copy", spec), config=config)
    (copy,) = built.agents
    assert isinstance(copy.input, TopicInput)
    assert copy.input.serializers == Serializers("raw", "json")
    assert copy.outputs[0].serializers == Serializers("binary", "pickle")
    assert [table.serializers for table in built.tables] == [JSON, JSON]
    assert [table.partitions for table in built.tables] == [6, 5]
    assert {topic.serializers for topic in built.topics} == {Serializers("raw", "pickle")}


def test_an_agent_without_processors_forwards_its_input(plan: Callable[..., Plan]) -> None:
    (copy,) = plan(agent("copy", echo("a, b", "c"))).agents
    assert isinstance(copy.input, TopicInput)
    assert copy.input.topics == ("a", "b")
    assert copy.pipeline == ()
    assert copy.outputs[0].topic == "c"
    assert not copy.ordered


def test_a_channel_is_resolved_to_its_join(plan: Callable[..., Plan]) -> None:
    spec = "input: {start: latest, channel: {name: orders-products-channel, tombstones: true}}"
    (reader,) = plan(ORDERS, PRODUCTS, JOIN, agent("reader", spec)).agents
    assert reader.input == ChannelInput("orders-products-channel", "orders-products", tombstones=True, start="latest")


def test_map_and_topic_send_of_one_operation_become_two_steps(plan: Callable[..., Plan]) -> None:
    spec = """
input: {topic: {name: a}}
processors:
  pipeline: [both]
  operations:
    - name: both
      tables: [{name: orders, paramName: orders}]
      map: {python: "f = lambda value, orders: value"}
      topicSend: {name: b, ack: true, passThrough: true}
"""
    built = plan(ORDERS, agent("both", spec))
    first, second = built.agents[0].pipeline
    assert (first.kind, second.kind) == ("map", "topicSend")
    assert second.send is not None
    assert (second.send.topic, second.send.ack, second.send.pass_through) == ("b", True, True)
    assert first.tables == second.tables == (TableParameter("orders", "orders"),)
    assert [topic.name for topic in built.topics] == ["a", "b"]


def test_the_last_operation_of_a_name_counts_and_a_pipeline_may_repeat_it(
    plan: Callable[..., Plan],
) -> None:
    spec = """
input: {topic: {name: a}}
processors:
  pipeline: [x, y, x]
  operations:
    - name: x
      map: {python: "first = lambda v: v"}
    - name: y
      filter: {python: "keep = lambda v: True"}
    - name: x
      map: {python: "second = lambda v: v"}
    - name: unused
      map: {python: "unused = lambda v: v"}
"""
    (built,) = plan(agent("a", spec)).agents
    functions = [step.function.entrypoint for step in built.pipeline if step.function]
    assert functions == ["second", "keep", "second"]


def test_a_join_over_an_absent_table_waits_and_so_do_its_readers(plan: Callable[..., Plan]) -> None:
    reader = agent("reader", "input: {channel: {name: orders-products-channel}}")
    built = plan(ORDERS, JOIN, reader, agent("copy", echo("a", "b")))
    assert built.joins == ()
    assert [one.name for one in built.agents] == ["copy"]
    assert dict(built.waiting) == {
        ResourceRef("agent", "reader"): "waits for join/orders-products",
        ResourceRef("join", "orders-products"): "table 'products' is not there",
    }
    assert not has_errors(built.findings)


def test_topics_of_waiting_agents_exist(plan: Callable[..., Plan]) -> None:
    built = plan(agent("waits", writer("raw", "nowhere")))
    assert [topic.name for topic in built.topics] == ["raw"]
    assert built.agents == ()


def test_tables_of_operations_that_do_not_run_need_not_exist(plan: Callable[..., Plan]) -> None:
    built = plan(agent("a", writer("raw", "nowhere").replace("[write]", "[]")))
    assert built.waiting == ()


def test_agents_that_share_tables_form_a_group(plan: Callable[..., Plan]) -> None:
    a, b, c = (agent(name, writer(f"raw-{name}", table)) for name, table in [("a", "t1"), ("b", "t1"), ("c", "t2")])
    built = plan(("KasprTable", "t1", "{}"), ("KasprTable", "t2", "{}"), a, b, c, agent("copy", echo("x", "y")))
    assert built.groups == (
        (ResourceRef("agent", "a"), ResourceRef("agent", "b")),
        (ResourceRef("agent", "c"),),
    )


def test_a_web_view_does_not_run_and_waits_for_its_tables(plan: Callable[..., Plan]) -> None:
    built = plan(("KasprWebView", "v", "request: {method: GET, path: /x}\nresponse:"))
    assert [view.ref for view in built.web_views] == [ResourceRef("webview", "v")]
    assert built.runs == ()
    reading = "{pipeline: [r], operations: [{name: r, tables: [{name: t, paramName: t}], map: {python: 'def r(): 1'}}]}"
    view = ("KasprWebView", "v", f"request: {{method: GET, path: /x}}\nprocessors: {reading}")
    assert plan(view).waiting == ((ResourceRef("webview", "v"), "table 't' is not there"),)
    assert plan(view, ("KasprTable", "t", "{}")).web_views[0].tables == ("t",)


SENDING = "{pipeline: [s], operations: [{name: s, topicSend: {name: out}}]}"


@pytest.mark.parametrize(
    ("schedule", "planned"),
    [
        ("", None),
        ("schedule: {interval: 15m}", SchedulePlan(900_000, None, "UTC")),
        ("schedule: {cron: 0 9 * * *, timezone: Europe/Berlin}", SchedulePlan(None, "0 9 * * *", "Europe/Berlin")),
    ],
)
def test_tasks_are_planned_with_their_schedule(
    plan: Callable[..., Plan], schedule: str, planned: SchedulePlan | None
) -> None:
    built = plan(("KasprTask", "t", f"processors: {SENDING}\n{schedule}"))
    (task,) = built.tasks
    assert (task.ref, task.schedule, task.log) == (ResourceRef("task", "t"), planned, "task__t")
    assert [topic.name for topic in built.topics] == ["out"]


def test_a_task_waits_for_its_tables(plan: Callable[..., Plan]) -> None:
    operations = "[{name: s, tables: [{name: nowhere, paramName: t}], map: {python: 'def f(t): return 1'}}]"
    built = plan(("KasprTask", "t", f"processors: {{pipeline: [s], operations: {operations}}}"))
    assert built.tasks == ()
    assert dict(built.waiting) == {ResourceRef("task", "t"): "table 'nowhere' is not there"}


@pytest.mark.parametrize(
    ("configs", "rows", "feed"),
    [
        ({}, None, None),
        ({"retention.ms": "86400000", "cleanup.policy": "compact"}, None, 86_400_000),
        ({"retention.ms": "-1"}, None, None),
        ({"cleanup.policy": "delete"}, 604_800_000, None),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, 1_000, None),
    ],
)
def test_changelog_settings_set_the_retention_of_rows_and_change_feed(
    plan: Callable[..., Plan], configs: dict[str, str], rows: int | None, feed: int | None
) -> None:
    (table,) = plan(("KasprTable", "t", f"extraTopicConfigs: {json.dumps(configs)}")).tables
    assert (table.retention, table.feed_retention) == (rows, feed)


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        ("", None),
        ("retention: 3600", 3_600_000),
        ("retention: -1", None),
        ("config: {retention.ms: 60000}", 60_000),
        ("config: {retention.ms: 60000, cleanup.policy: compact}", None),
    ],
)
def test_a_declaration_sets_partitions_and_retention_of_a_topic(
    plan: Callable[..., Plan], declared: str, kept: int | None
) -> None:
    topic = f"{{name: x, partitions: 7, {declared}}}"
    built = plan(agent("a", f"input: {{topic: {topic}}}"), agent("b", "input: {topic: {name: x}}"))
    assert [(one.name, one.partitions, one.retention) for one in built.topics] == [("x", 7, kept)]


def test_the_changelog_of_a_table_is_the_table_and_not_a_topic(plan: Callable[..., Plan]) -> None:
    built = plan(("KasprTable", "t1", "{}"), agent("fill", echo("raw", "shop-app-t1-changelog")))
    assert [topic.name for topic in built.topics] == ["raw"]
    assert Edge("agent/fill", "table/t1") in built.edges
    changelog = built.changelog("shop-app-t1-changelog")
    assert changelog is not None
    assert changelog.name == "t1"


def test_a_join_without_a_type_is_inner(plan: Callable[..., Plan]) -> None:
    for written in ("", "\ntype:"):
        (join,) = plan(ORDERS, PRODUCTS, (*JOIN[:2], JOIN[2] + written)).joins
        assert join.type == "inner"


def test_a_global_table_is_a_table_like_any_other(plan: Callable[..., Plan]) -> None:
    everywhere, usual = (plan(("KasprTable", "t", f"global: {flag}")).tables[0] for flag in ("true", "false"))
    assert everywhere.is_global
    assert replace(everywhere, is_global=False) == usual


def test_a_pattern_reads_the_topics_whose_whole_names_match(plan: Callable[..., Plan]) -> None:
    named = [agent(f"to-{name}", echo("x", name)) for name in ("orders-eu", "orders-us", "old-orders-eu")]
    built = plan(*named, agent("many", 'input: {topic: {pattern: "orders-.*"}}'))
    many = built.agent("many")
    assert many is not None
    assert isinstance(many.input, TopicInput)
    assert many.input.topics == ("orders-eu", "orders-us")


def test_packages_of_the_application_are_planned() -> None:
    head = "apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata: {name: shop}\n"
    text = head + "spec: {pythonPackages: {packages: [a, b]}}"
    ((only,), _) = build_plans(load_text(text, "m.yaml"))
    assert only.python_packages == ("a", "b")


def test_an_absent_application_has_defaults_and_its_resources_run() -> None:
    text = "apiVersion: kaspr.io/v1alpha1\nkind: KasprTable\nmetadata: {name: t, labels: {kaspr.io/app: shop}}\n"
    ((only,), findings) = build_plans(load_text(text, "m.yaml"))
    assert only.tables[0].partitions == 3
    assert [finding.severity for finding in findings] == [Severity.WARNING]


def test_a_reference_to_a_manifest_with_errors_is_not_reported_as_missing() -> None:
    labels = "metadata: {name: %s, labels: {kaspr.io/app: shop}}"
    head = "apiVersion: kaspr.io/v1alpha1\nkind: %s\n" + labels + "\nspec: %s\n"
    join = "{leftTable: a, rightTable: a, extractor: {python: 'f = lambda v: v'}}"
    app = "apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata: {name: shop}\n"
    text = "---\n".join([app, head % ("KasprTable", "a", "{partitions: x}"), head % ("KasprJoin", "j", join)])
    ((only,), findings) = build_plans(load_text(text, "m.yaml"))
    assert [finding.severity for finding in findings] == [Severity.ERROR]
    assert only.waiting == ((ResourceRef("join", "j"), "table 'a' has errors"),)


def test_applications_are_planned_apart_and_sorted() -> None:
    table = "apiVersion: kaspr.io/v1alpha1\nkind: KasprTable\nmetadata: {name: t, labels: {kaspr.io/app: %s}}\n"
    plans, _ = build_plans(load_text("---\n".join([table % "b", table % "a"]), "m.yaml"))
    assert [one.application for one in plans] == ["a", "b"]


def test_two_applications_may_not_share_a_schema() -> None:
    app = "apiVersion: kaspr.io/v1alpha1\nkind: KasprApp\nmetadata: {name: %s}\n"
    _, findings = build_plans(load_text("---\n".join([app % "a.b", app % "a-b"]), "m.yaml"))
    assert "would share the schema 'a_b'" in "".join(map(str, findings))
