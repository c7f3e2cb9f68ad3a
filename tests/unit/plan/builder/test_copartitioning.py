"""Co-partitioning: the joins that require it, and the accepted alternatives."""

from __future__ import annotations

import re

import pytest

from kaspr_delta.plan.builder.build import build_plans
from kaspr_delta.spec.diagnostics import Finding, Severity
from kaspr_delta.spec.loader import load_text

CODE = "{python: 'f = lambda value: value'}"
VIEWS = "leftStream: {topic: PageViews}\n"
PROFILES = "rightTable: UserProfiles\n"
BOTH = 'CoPartitioningRequired { left = "PageViews", right = "UserProfiles" }'
PLAIN = "description: Profiles"
SELECTING = f"input: {{topic: {{name: raw}}}}\noutput: {{topics: [{{name: %s, partitionSelector: {CODE}}}]}}"


def errors(join: str, table: str = "partitions: 4", *more: tuple[str, str, str]) -> list[Finding]:
    manifests = [("KasprTable", "UserProfiles", table), ("KasprJoin", "enriched", join), *more]
    documents = []
    for kind, name, spec in manifests:
        lines = "".join(f"  {line}\n" for line in spec.splitlines())
        labels = "labels: {kaspr.io/app: shop}"
        documents.append(
            f"apiVersion: kaspr.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, {labels}}}\nspec:\n{lines}"
        )
    _, findings = build_plans(load_text("---\n".join(documents), "m.yaml"))
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def test_different_partition_counts_are_refused_with_places_and_remedies() -> None:
    (finding,) = errors(f"{VIEWS}{PROFILES}on: key")
    assert finding.message.startswith(f"{BOTH}: ")
    assert len(re.findall(r"\(at m\.yaml:\d+:\d+\)", finding.message)) == 2
    for remedy in ("`partitions: 4` under 'leftStream'", "`repartition: {partitions: 4}`", "`global: true`"):
        assert remedy in finding.hint


@pytest.mark.parametrize(
    ("join", "table"),
    [
        (f"leftStream: {{topic: PageViews, partitions: 4}}\n{PROFILES}on: key", "partitions: 4"),
        (f"{VIEWS}{PROFILES}on: key", "partitions: 3"),
        (f"{VIEWS}{PROFILES}on: key\nrepartition: {{partitions: 4}}", "partitions: 4"),
        (f"{VIEWS}{PROFILES}on: key", "partitions: 4\nglobal: true"),
    ],
)
def test_each_remedy_is_accepted(join: str, table: str) -> None:
    assert errors(join, table) == []


@pytest.mark.parametrize(
    "join",
    [
        f"{VIEWS}{PROFILES}extractor: {CODE}",
        f"{VIEWS}{PROFILES}rightExtractor: {CODE}\ntype: left",
        f"leftTable: Others\n{PROFILES}extractor: {CODE}",
    ],
)
def test_joins_by_a_function_need_no_co_partitioning(join: str) -> None:
    assert errors(join, "partitions: 4\nkeySerializer: raw", ("KasprTable", "Others", "partitions: 2")) == []


def test_different_key_serializers_are_refused_also_with_equal_partitions() -> None:
    for more in ("", "\nrepartition: {partitions: 3}"):
        (finding,) = errors(f"{VIEWS}{PROFILES}on: key{more}", "keySerializer: raw")
        assert finding.message.startswith(f"{BOTH}: ")
        assert finding.hint == "give both sides the same `keySerializer`"
    assert (
        errors(f"leftStream: {{topic: PageViews, keySerializer: raw}}\n{PROFILES}on: key", "keySerializer: raw") == []
    )


def test_a_partition_selector_on_one_side_only_is_refused() -> None:
    viewer = ("KasprAgent", "viewer", SELECTING % "PageViews")
    (finding,) = errors(f"{VIEWS}{PROFILES}on: key", PLAIN, viewer)
    assert finding.message.startswith(f"{BOTH}: ")
    assert "is written with a partitionSelector" in finding.message
    profiler = ("KasprAgent", "profiler", SELECTING % "shop-app-UserProfiles-changelog")
    assert errors(f"{VIEWS}{PROFILES}on: key", PLAIN, viewer, profiler) == []
    assert errors(f"{VIEWS}{PROFILES}on: key\nrepartition: {{partitions: 3}}", PLAIN, viewer) == []
    assert errors(f"{VIEWS}{PROFILES}on: key", "global: true", viewer) == []


def test_repartition_does_not_help_a_table_with_a_partition_selector() -> None:
    profiler = ("KasprAgent", "profiler", SELECTING % "shop-app-UserProfiles-changelog")
    (finding,) = errors(f"{VIEWS}{PROFILES}on: key", PLAIN, profiler)
    assert "repartition" not in finding.hint
    assert errors(f"{VIEWS}{PROFILES}on: key\nrepartition: {{partitions: 3}}", PLAIN, profiler) != []


def test_a_partition_selector_of_an_operation_is_refused_as_well() -> None:
    sending = f"""
processors:
  pipeline: [send]
  operations: [{{name: send, topicSend: {{name: PageViews, partitionSelector: {CODE}}}}}]
"""
    task = ("KasprTask", "task", sending)
    (finding,) = errors(f"{VIEWS}{PROFILES}on: key", PLAIN, task)
    assert finding.message.startswith(BOTH)


def test_two_streams_and_two_tables_need_co_partitioning_as_well() -> None:
    window = "on: key\nwindow: {before: 1m, after: 1m}"
    streams = f"{VIEWS}rightStream: {{topic: Clicks, partitions: 4}}\n{window}"
    (finding,) = errors(streams)
    assert 'left = "PageViews", right = "Clicks"' in finding.message
    assert "global" not in finding.hint
    assert errors(f"{streams}\nrepartition: {{partitions: 5}}") == []

    others = ("KasprTable", "Others", "partitions: 2")
    tables = f"leftTable: Others\n{PROFILES}on: key"
    (finding,) = errors(tables, "partitions: 4", others)
    assert "repartition" not in finding.hint
    assert errors(tables, "partitions: 4\nglobal: true", others) == []
    assert errors(tables, "partitions: 2", others) == []


def test_a_side_without_partitions_has_those_of_the_application() -> None:
    app = ("KasprApp", "shop", "config: {topicPartitions: 4}")
    assert errors(f"{VIEWS}{PROFILES}on: key", "partitions: 4", app) == []
    assert errors(f"{VIEWS}{PROFILES}on: key", "partitions: 3", app) != []


def test_the_result_of_a_join_has_the_partitions_of_the_application() -> None:
    both = ("KasprJoin", "both", "leftTable: UserProfiles\nrightTable: UserProfiles\non: key")
    (finding,) = errors(f"leftTable: both\n{PROFILES}on: key", "partitions: 4", both)
    assert finding.hint.startswith("make the counts equal with `partitions: 3` in KasprTable 'UserProfiles'")
    assert errors(f"leftStream: {{channel: both-channel}}\n{PROFILES}on: key", "partitions: 3", both) == []
