"""Sides that need not be copartitioned, or are written with a partition selector; acceptance cases hold the others."""

from __future__ import annotations

import pytest

from tests.unit.plan.shop import CODE, Manifest, errors

BY_KEY = "leftStream: {topic: PageViews}\nrightTable: UserProfiles\non: key"
REPARTITIONED = BY_KEY + "\nrepartition: {partitions: 3}"
PLAIN = "description: Profiles"
SELECTING = f"input: {{topic: {{name: raw}}}}\noutput: {{topics: [{{name: %s, partitionSelector: {CODE}}}]}}"
VIEWER = ("KasprAgent", "viewer", SELECTING % "PageViews")
PROFILER = ("KasprAgent", "profiler", SELECTING % "shop-app-UserProfiles-changelog")
SENDING = f"{{name: send, topicSend: {{name: PageViews, partitionSelector: {CODE}}}}}"
SENDER = ("KasprTask", "task", f"processors:\n  pipeline: [send]\n  operations: [{SENDING}]")


def hints(join: str, table: str, *more: Manifest, app: str = "config: {}") -> list[str]:
    given = (("KasprTable", "UserProfiles", table), ("KasprJoin", "enriched", join), *more)
    return [finding.hint for finding in errors(*given, app=app)]


def test_different_key_serializers_are_refused_also_with_equal_partitions() -> None:
    for join in (BY_KEY, REPARTITIONED):
        assert hints(join, "keySerializer: raw") == ["give both sides the same `keySerializer`"]
    assert hints(BY_KEY.replace("PageViews", "PageViews, keySerializer: raw"), "keySerializer: raw") == []


@pytest.mark.parametrize(
    ("join", "table", "selecting", "refused"),
    [
        (BY_KEY, PLAIN, [VIEWER], True),
        (BY_KEY, PLAIN, [SENDER], True),
        (BY_KEY, PLAIN, [VIEWER, PROFILER], False),
        (REPARTITIONED, PLAIN, [VIEWER], False),
        (BY_KEY, "global: true", [VIEWER], False),
        (BY_KEY, PLAIN, [PROFILER], True),
        (REPARTITIONED, PLAIN, [PROFILER], True),  # the table keeps its partitions
    ],
)
def test_a_partition_selector_on_one_side_only_is_refused(
    join: str, table: str, selecting: list[Manifest], *, refused: bool
) -> None:
    found = hints(join, table, *selecting)
    assert [hint.partition(";")[0] for hint in found] == [
        "write both sides with the same partitionSelector, or none"
    ] * refused
    assert not any("repartition:" in hint for hint in found if selecting == [PROFILER])


def test_a_side_without_partitions_has_those_of_the_application() -> None:
    app = "config: {topicPartitions: 4}"
    assert hints(BY_KEY, "partitions: 4", app=app) == []
    assert hints(BY_KEY, "partitions: 3", app=app) != []
