"""The retention of change feeds: how long the files and the log of a table are kept."""

from __future__ import annotations

import pytest

from kaspr_delta.plan.definition.resources import ResourceRef
from kaspr_delta.storage.layout import SUBSCRIPTIONS, TOPIC, Layout
from kaspr_delta.storage.plan_tables import tables_of
from tests.manifests import plan_of

FILES, LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
MANIFESTS = """
KasprApp/shop: {config: {feedRetention: 90d}}
KasprTable/orders: {}
KasprTable/prices: {extraTopicConfigs: {"retention.ms": "60000"}}
KasprJoin/joined: {leftTable: orders, rightTable: prices, type: inner, column: price}
"""


def test_topics_keep_removed_files_for_thirty_days() -> None:
    assert TOPIC.properties[FILES] == "interval 30 days"
    assert FILES not in SUBSCRIPTIONS.properties


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "{a", "a)", "a\nb", "a\tb", "a=b"])
def test_only_names_that_delta_refuses_get_column_mapping(name: str) -> None:
    mode = "delta.columnMapping.mode"
    assert Layout(f"key STRING, v ARRAY<STRUCT<a: MAP<STRING, STRUCT<`{name}`: INT>>>>").properties[mode] == "name"
    assert mode not in Layout("key STRING, `a.b` INT, `a``b` STRUCT<`ä`: INT, `select`: INT>").properties


def test_a_table_may_override_the_feed_retention_of_the_application() -> None:
    plan = plan_of("shop", MANIFESTS)
    properties = {table: layout.properties for _, table, layout in tables_of(plan)}
    for table in ("orders", "joined"):
        assert properties[table][FILES] == properties[table][LOG] == "interval 7776000000 milliseconds"
    assert properties["prices"][FILES] == "interval 60000 milliseconds"
    channel = properties["channel__joined_channel"]
    assert channel[FILES] == "interval 7776000000 milliseconds"
    assert channel[LOG] == "interval 3650 days", "a reader that comes late begins at the first commit"
    assert FILES not in properties["subscriptions__joined"]


def test_a_deleted_application_keeps_its_settings() -> None:
    plan = plan_of("shop", MANIFESTS)
    assert plan.emptied.feed_retention == plan.feed_retention == 90 * 24 * 3_600_000
    assert plan.emptied.join("joined") is None
    assert plan.join("joined").ref == ResourceRef("join", "joined")  # type: ignore[union-attr]
