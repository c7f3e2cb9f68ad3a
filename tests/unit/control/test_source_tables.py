"""The kinds of tables of others: which can be read, and the reason and remedy for each other one."""

from __future__ import annotations

import pytest

from kaspr_delta.control.source_tables import policy_notice, refusal
from kaspr_delta.storage.namespace import UnityNamespace
from kaspr_delta.storage.spark.description import Description

NAMESPACE = UnityNamespace("main", "shop", "v")
FEED, TRACKED = "[delta.enableChangeDataFeed=true]", "[delta.enableRowTracking=true]"


def decided(described: Description, *, changes: bool | None = None) -> str | None:
    """The refusal of a table; without ``changes`` nobody may try to read some."""

    def reads_changes() -> bool:
        assert changes is not None, "a statement more than needed"
        return changes

    return refusal("c.s.t", described, NAMESPACE, reads_changes=reads_changes)


@pytest.mark.parametrize("kind", ["MANAGED", "EXTERNAL", "STREAMING_TABLE", "MANAGED_SHALLOW_CLONE", ""])
def test_a_table_with_a_change_feed_can_be_read_without_a_further_statement(kind: str) -> None:
    assert decided(Description(kind, "delta", properties=FEED)) is None


def test_a_delta_table_of_a_federated_metastore_is_one_like_others() -> None:
    assert decided(Description("FOREIGN", "delta", properties=FEED)) is None
    assert "has to run ALTER TABLE" in (decided(Description("FOREIGN", "delta")) or "")
    assert decided(Description("FOREIGN", "deltasharing"), changes=True) is None


def test_row_tracking_alone_is_enough_where_changes_can_be_read() -> None:
    table = Description("MANAGED", "delta", properties=TRACKED)
    assert decided(table, changes=True) is None
    assert "is off: its owner has to run ALTER TABLE `c`.`s`.`t`" in (decided(table, changes=False) or "")


@pytest.mark.parametrize("provider", ["iceberg", "deltasharing"])
def test_iceberg_and_shared_tables_can_be_read_where_their_changes_can(provider: str) -> None:
    for properties in ("", FEED):
        table = Description("MANAGED", provider, properties=properties)
        assert decided(table, changes=True) is None
        refused = decided(table, changes=False)
        assert refused is not None
        assert "ALTER" not in refused


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (Description("MANAGED", "delta"), "has to run ALTER TABLE"),
        (Description("VIEW"), "is a view, which has no change data feed: name the table that it reads"),
        (Description("MATERIALIZED_VIEW", "delta", properties=FEED), "a materialized view, which has neither"),
        (Description("FOREIGN", "postgresql"), "a foreign table, which has no change data feed: copy it"),
        (Description("FOREIGN", "iceberg"), "a foreign table"),
        (Description("STREAMING_TABLE", "delta"), "the pipeline that fills it has to set the table property"),
        (Description("EXTERNAL", "parquet"), "is a table of parquet, which has no change data feed"),
        (Description("MANAGED", "delta", properties=FEED, filters_rows=True), "has a row filter, and Databricks reads"),
        (
            Description("MANAGED", "delta", properties=FEED, filters_rows=True, masked=("ssn", "mail")),
            "has a row filter and a mask on 'ssn' and a mask on 'mail', and",
        ),
    ],
)
def test_each_other_kind_has_its_reason_and_its_remedy(described: Description, reason: str) -> None:
    assert reason in (decided(described) or "")


def test_policies_are_named_with_the_remedy() -> None:
    assert policy_notice("c.s.t", ["hide", "mask"]).startswith("attribute policies apply to 'c.s.t' (hide, mask): ")
