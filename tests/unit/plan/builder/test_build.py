"""Rules of plans beyond those that acceptance cases show."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.plan.definition.resources import ChannelInput, ResourceRef, SchedulePlan, Serializers, TopicInput
from kaspr_delta.plan.drawing.picture import Edge
from kaspr_delta.spec.diagnostics import Severity
from kaspr_delta.spec.loader import load_text
from tests.unit.plan.shop import Manifest, manifest, plan, planned

JSON = Serializers("json", "json")
ORDERS = ("KasprTable", "orders", "partitions: 6")
PRODUCTS = ("KasprTable", "products", "description: Products")
JOIN = ("KasprJoin", "both", "leftTable: orders\nrightTable: products\nextractor: {python: 'f = lambda v: v'}")


def agent(name: str, spec: str) -> Manifest:
    return "KasprAgent", name, spec


def echo(source: str, target: str) -> str:
    return f"input: {{topic: {{name: '{source}'}}}}\noutput: {{topics: [{{name: {target}}}]}}"


def writer(topic: str, table: str) -> str:
    step = (
        f"{{name: write, tables: [{{name: {table}, paramName: t}}], map: {{python: 'write = lambda value, t: value'}}}}"
    )
    return f"input: {{topic: {{name: {topic}}}}}\nprocessors:\n  pipeline: [write]\n  operations: [{step}]"


def test_metadata_name_wins_over_spec_name() -> None:
    built = plan(("KasprTable", "orders", "name: other"))
    assert [table.name for table in built.tables] == ["orders"]
    assert [finding.severity for finding in built.findings] == [Severity.NOTE]


def test_topics_take_the_serializers_of_the_application_but_tables_do_not() -> None:
    config = "config: {keySerializer: raw, valueSerializer: pickle, topicPartitions: 5}"
    spec = "input: {topic: {name: a, valueSerializer: json}}\noutput: {topics: [{name: b, keySerializer: binary}]}"
    built = plan(ORDERS, PRODUCTS, agent("copy", spec), app=config)
    (copy,) = built.agents
    assert isinstance(copy.input, TopicInput)
    assert copy.input.serializers == Serializers("raw", "json")
    assert copy.outputs[0].serializers == Serializers("binary", "pickle")
    assert [table.serializers for table in built.tables] == [JSON, JSON]
    assert [table.partitions for table in built.tables] == [6, 5]
    assert {topic.serializers for topic in built.topics} == {Serializers("raw", "pickle")}


def test_a_channel_is_resolved_to_its_join() -> None:
    spec = "input: {start: latest, channel: {name: both-channel, tombstones: true}}"
    (reader,) = plan(ORDERS, PRODUCTS, JOIN, agent("reader", spec)).agents
    assert reader.input == ChannelInput("both-channel", "both", tombstones=True, start="latest")


def test_map_and_topic_send_become_two_steps_and_the_last_operation_of_a_name_counts() -> None:
    spec = """
input: {topic: {name: a}}
processors:
  pipeline: [x, y, x]
  operations:
    - {name: x, map: {python: "first = lambda v: v"}}
    - {name: y, filter: {python: "keep = lambda v: True"}}
    - name: x
      tables: [{name: orders, paramName: orders}]
      map: {python: "second = lambda value, orders: value"}
      topicSend: {name: b, ack: true, passThrough: true}
    - {name: unused, map: {python: "unused = lambda v: v"}}
"""
    built = plan(ORDERS, agent("a", spec))
    steps = built.agents[0].pipeline
    functions = [step.function.entrypoint if step.function else step.kind for step in steps]
    assert functions == ["second", "topicSend", "keep", "second", "topicSend"]
    assert steps[0].tables == steps[1].tables
    assert steps[1].send is not None
    assert (steps[1].send.topic, steps[1].send.ack, steps[1].send.pass_through) == ("b", True, True)
    assert [topic.name for topic in built.topics] == ["a", "b"]


def test_topics_of_waiting_agents_exist() -> None:
    built = plan(agent("waits", writer("raw", "nowhere")))
    assert [topic.name for topic in built.topics] == ["raw"]
    assert built.agents == ()


def test_tables_of_operations_that_do_not_run_need_not_exist() -> None:
    assert plan(agent("a", writer("raw", "nowhere").replace("[write]", "[]"))).waiting == ()


def test_agents_that_share_tables_form_a_group() -> None:
    a, b, c = (agent(name, writer(f"raw-{name}", table)) for name, table in [("a", "t1"), ("b", "t1"), ("c", "t2")])
    built = plan(
        ("KasprTable", "t1", "name: t1"), ("KasprTable", "t2", "name: t2"), a, b, c, agent("d", echo("x", "y"))
    )
    assert [[ref.name for ref in group] for group in built.groups] == [["a", "b"], ["c"]]


def test_a_web_view_does_not_run_and_waits_for_its_tables() -> None:
    assert plan(("KasprWebView", "v", "request: {method: GET, path: /x}\nresponse:")).runs == ()
    reading = "{pipeline: [r], operations: [{name: r, tables: [{name: t, paramName: t}], map: {python: 'def r(): 1'}}]}"
    view = ("KasprWebView", "v", f"request: {{method: GET, path: /x}}\nprocessors: {reading}")
    assert plan(view).waiting == ((ResourceRef("webview", "v"), "table 't' is not there"),)
    assert plan(view, ("KasprTable", "t", "name: t")).web_views[0].tables == ("t",)


@pytest.mark.parametrize(
    ("schedule", "planned"),
    [
        ("", None),
        ("schedule: {interval: 15m}", SchedulePlan(900_000, None, "UTC")),
        ("schedule: {cron: 0 9 * * *, timezone: Europe/Berlin}", SchedulePlan(None, "0 9 * * *", "Europe/Berlin")),
    ],
)
def test_tasks_are_planned_with_their_schedule(schedule: str, planned: SchedulePlan | None) -> None:
    sending = "{pipeline: [s], operations: [{name: s, topicSend: {name: out}}]}"
    built = plan(("KasprTask", "t", f"processors: {sending}\n{schedule}"))
    (task,) = built.tasks
    assert (task.ref, task.schedule, task.log) == (ResourceRef("task", "t"), planned, "task__t")
    assert [topic.name for topic in built.topics] == ["out"]


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
    configs: dict[str, str], rows: int | None, feed: int | None
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
def test_a_declaration_sets_partitions_and_retention_of_a_topic(declared: str, kept: int | None) -> None:
    topic = f"{{name: x, partitions: 7, {declared}}}"
    built = plan(agent("a", f"input: {{topic: {topic}}}"), agent("b", "input: {topic: {name: x}}"))
    assert [(one.name, one.partitions, one.retention) for one in built.topics] == [("x", 7, kept)]


def test_the_changelog_of_a_table_is_the_table_and_not_a_topic() -> None:
    built = plan(("KasprTable", "t1", "name: t1"), agent("fill", echo("raw", "shop-app-t1-changelog")))
    assert [topic.name for topic in built.topics] == ["raw"]
    assert Edge("agent/fill", "table/t1") in built.edges
    changelog = built.changelog("shop-app-t1-changelog")
    assert changelog is not None
    assert changelog.name == "t1"


def test_a_join_without_a_type_is_inner() -> None:
    for written in ("", "\ntype:"):
        (join,) = plan(ORDERS, PRODUCTS, (*JOIN[:2], JOIN[2] + written)).joins
        assert join.type == "inner"


def test_a_global_table_is_a_table_like_any_other() -> None:
    everywhere, usual = (plan(("KasprTable", "t", f"global: {flag}")).tables[0] for flag in ("true", "false"))
    assert everywhere.is_global
    assert replace(everywhere, is_global=False) == usual


def test_a_pattern_reads_the_topics_whose_whole_names_match() -> None:
    named = [agent(f"to-{name}", echo("x", name)) for name in ("orders-eu", "orders-us", "old-orders-eu")]
    many = plan(*named, agent("many", 'input: {topic: {pattern: "orders-.*"}}')).agent("many")
    assert many is not None
    assert isinstance(many.input, TopicInput)
    assert many.input.topics == ("orders-eu", "orders-us")


def test_packages_of_the_application_are_planned() -> None:
    assert plan(app="pythonPackages: {packages: [a, b]}").python_packages == ("a", "b")


def test_a_reference_to_a_manifest_with_errors_is_not_reported_as_missing() -> None:
    join = "leftTable: a\nrightTable: a\nextractor: {python: 'f = lambda v: v'}"
    only, findings = planned(("KasprTable", "a", "partitions: x"), ("KasprJoin", "j", join))
    assert [finding.severity for finding in findings] == [Severity.ERROR]
    assert only.waiting == ((ResourceRef("join", "j"), "table 'a' has errors"),)


def test_two_applications_may_not_share_a_schema() -> None:
    apps = "---\n".join(manifest("KasprApp", name, "description: An app") for name in ("a.b", "a-b"))
    _, findings = build_plans(load_text(apps, "m.yaml"))
    assert "would share the schema 'a_b'" in "".join(map(str, findings))
