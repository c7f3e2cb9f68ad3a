"""Every shape of join and every aggregation on Spark: one application, whose tests share a few runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import time_machine
from pyspark.sql import SparkSession

from kaspr_delta import Application, UsageError
from kaspr_delta.plan.definition.joins import TableTableJoinPlan

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
HOME = {"country": "ch", "page": "ann"}
AWAY = {"country": "xx", "page": "nobody"}


@dataclass(frozen=True)
class After:
    """The application after a run: the records of some channels, and the rows of some made tables and joined tables."""

    app: Application
    channels: dict[str, list[tuple[Any, Any, Any]]]
    tables: dict[str, dict[Any, Any]]

    @classmethod
    def run(cls, app: Application, *read: str) -> After:
        app.run()
        joins = [join for join in app.plan.joins if join.name in read]
        channels = {join.name: _read_records(app, join.channel) for join in joins}
        joined = {join.name: app.join(join.name) for join in joins if isinstance(join, TableTableJoinPlan)}
        made = {table.name: app.table(table.name) for table in app.plan.aggregations if table.name in read}
        return cls(app, channels, {name: dict(one.rows()) for name, one in {**joined, **made}.items()})

    def records_of(self, join: str) -> list[tuple[Any, Any, Any]]:
        return self.channels[join]


def _read_records(app: Application, channel: str) -> list[tuple[Any, Any, Any]]:
    return [
        (r["key"], (r["value"] or {}).get("left"), (r["value"] or {}).get("right"))
        for r in app.channel(channel).records()
    ]


def view(key: str | None, at: int, value: Any = HOME) -> dict[str, Any]:
    return {"key": key, "value": value, "timestamp": at}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shapes")


@pytest.fixture(scope="module")
def first(spark: SparkSession, folder: Path) -> After:
    """After the first run: all tables and topics were filled before it."""
    manifests = Path(__file__).parent / "applications" / "shapes.yaml"
    app = Application.open(manifests, warehouse=folder, spark=spark)
    app.table("countries").put({"ch": {"name": "Switzerland"}, "fr": {"name": "France"}})
    app.table("people").put({"ann": {"n": 1}, "bob": {"n": 2}, "cid": {"n": 3}})
    app.table("addresses").put(
        {
            "ann": {"country": "ch", "owner": "ann"},
            "bob": {"country": "fr", "owner": "ann"},
            "dora": {"country": "fr", "owner": None},
        }
    )
    updates = [view("ann", 10, "young"), view("bob", 10, "new"), view(None, 10, "nobody")]
    app.topic("profile-updates").produce(updates)
    without_value = {"key": "ann", "value": None, "timestamp": 61_500}
    app.topic("views").produce(
        [
            view("ann", 5),
            view("ann", 15),
            view("bob", 8_000, AWAY),
            view(None, 9_000),
            view("ann", 61_000),
            without_value,
        ]
    )
    hat, pin, pen = ({"what": what, "price": price} for what, price in [("hat", 5), ("pin", 1), ("pen", 2)])
    app.topic("purchases").produce([view("ann", 2_000, hat), view("ann", 3_000, pin), view("bob", 1, pen)])
    of_tables = ("residents", "profiles", "views-per-minute", "spent", "dearest")
    return After.run(
        app, *of_tables, "views-of-known", "views-of-all", "views-by-country", "views-by-page", "view-details"
    )


@pytest.fixture(scope="module")
def second(first: After) -> After:
    """After more runs: both sides of most joins have changed."""
    app = first.app
    app.table("people").delete(["cid"])
    app.table("people").put({"eve": {"n": 5}})
    app.table("addresses").put({"bob": {"country": "ch", "owner": "bob"}})
    app.table("addresses").delete(["ann"])
    app.topic("profile-updates").produce([view("ann", 70_000, "old")])
    app.run(only=["join/view-details", "table/profiles"])
    app.topic("profile-updates").produce([view("ann", 90_000, "older")])
    app.topic("profile-updates").produce([view("bob", 90_000, None), view("dan", 90_000, "late")])
    app.topic("views").produce([view("ann", 60_500), view("ann", 80_000), view("dan", 81_000), view("ann", 95_000)])
    of_tables = ("residents", "residents-abroad", "people-per-country", "profiles", "views-per-country")
    return After.run(app, *of_tables, "views-of-known", "patient-views", "view-details", "bought-after-view")


class TestSameKey:
    def test_outer_joins_show_unmatched_rows_of_both_sides(self, first: After) -> None:
        assert first.tables["residents"] == {
            "ann": {"left": {"n": 1}, "right": {"country": "ch", "owner": "ann"}},
            "bob": {"left": {"n": 2}, "right": {"country": "fr", "owner": "ann"}},
            "cid": {"left": {"n": 3}, "right": None},
            "dora": {"left": None, "right": {"country": "fr", "owner": None}},
        }

    def test_changes_of_both_sides_are_followed(self, second: After) -> None:
        assert second.tables["residents"] == {
            "ann": {"left": {"n": 1}, "right": None},
            "bob": {"left": {"n": 2}, "right": {"country": "ch", "owner": "bob"}},
            "dora": {"left": None, "right": {"country": "fr", "owner": None}},
            "eve": {"left": {"n": 5}, "right": None},
        }
        assert ("cid", None, None) in second.records_of("residents")

    def test_a_join_follows_the_result_of_another_join_and_its_deletions(self, second: After) -> None:
        result = second.tables["residents-abroad"]
        assert set(result) == {"ann", "bob", "dora", "eve"}
        assert result["bob"]["right"] == {"name": "Switzerland"}
        assert result["ann"]["right"] is None

    def test_the_result_of_a_join_is_aggregated(self, second: After) -> None:
        assert second.tables["people-per-country"] == {"Switzerland": 1, "France": 1}


class TestStreamTable:
    def test_a_record_meets_the_row_that_came_before_it(self, first: After) -> None:
        assert first.records_of("views-of-known")[:3] == [
            ("ann", HOME, "young"),
            ("bob", AWAY, "new"),
            ("ann", HOME, "young"),
        ]

    def test_a_left_join_shows_records_without_a_row_and_without_a_key(self, first: After) -> None:
        assert first.records_of("views-of-all")[:1] == [("ann", HOME, None)]
        assert (None, HOME, None) in first.records_of("views-of-all")

    def test_in_one_batch_both_sides_are_merged_by_their_times(self, second: After) -> None:
        assert second.records_of("views-of-known")[3:] == [
            ("ann", HOME, "young"),
            ("ann", HOME, "old"),
            ("ann", HOME, "older"),
        ]

    def test_a_pending_record_is_joined_when_its_row_arrives(self, second: After) -> None:
        assert ("ann", HOME, "young") in second.records_of("patient-views")[:1]
        with time_machine.travel(time.time() + 10):
            second.app.run(only=["join/patient-views"])
        records = _read_records(second.app, "patient-views-channel")
        assert ("dan", HOME, "late") in records
        assert records.count((None, HOME, None)) == 1

    def test_a_join_with_a_global_table_uses_any_key_and_keeps_the_records_key(self, first: After) -> None:
        records = first.records_of("views-by-country")
        assert records[0] == ("ann", HOME, {"name": "Switzerland"})
        assert ("bob", AWAY, None) in records
        assert (None, HOME, None) in records

    def test_a_record_that_is_re_keyed_by_a_function_keeps_its_new_key(self, first: After) -> None:
        assert first.records_of("views-by-page")[0] == ("ann", HOME, {"n": 1})
        assert [key for key, _, _ in first.records_of("views-by-page")] == ["ann"] * 4

    def test_a_record_meets_all_rows_that_refer_to_its_key(self, first: After) -> None:
        records = first.records_of("view-details")
        ann = [{"country": "ch", "owner": "ann"}, {"country": "fr", "owner": "ann"}]
        assert [right for key, _, right in records if key == "bob"] == [None]
        assert [right for key, _, right in records if key == "ann"][-2:] == ann

    def test_a_record_meets_no_row_that_now_refers_to_another_key(self, second: After) -> None:
        records = second.records_of("view-details")
        assert [right for key, _, right in records if key == "ann"][-1] is None


class TestStreamStream:
    def test_records_near_each_other_are_joined_and_others_come_out_alone(self, second: After) -> None:
        records = second.records_of("bought-after-view")
        assert ("ann", HOME, {"what": "hat", "price": 5}) in records
        assert ("bob", AWAY, None) in records
        assert (None, HOME, None) in records


class TestAggregations:
    def test_to_table_keeps_the_last_value(self, first: After) -> None:
        assert first.tables["profiles"] == {"ann": "young", "bob": "new"}

    def test_a_tombstone_deletes_the_row_of_its_key(self, second: After) -> None:
        assert second.tables["profiles"] == {"ann": "older", "dan": "late"}

    def test_values_are_counted_by_the_result_of_a_function(self, second: After) -> None:
        assert second.tables["views-per-country"] == {"ch": 8, "xx": 1}

    def test_windows_count_records_without_a_value_too(self, first: After) -> None:
        counts = first.tables["views-per-minute"].items()
        assert {(k.key, (k.window_start - EPOCH).seconds // 60): v for k, v in counts} == {
            ("ann", 0): 2,
            ("ann", 1): 2,
            ("bob", 0): 1,
        }

    def test_functions_aggregate_and_reduce(self, first: After) -> None:
        assert first.tables["spent"] == {
            "ann": {"total": 6, "last": "pin"},
            "bob": {"total": 2, "last": "pen"},
        }
        assert first.tables["dearest"]["ann"] == {"what": "hat", "price": 5}


def test_a_stream_valued_join_has_records_but_no_value_per_key(first: After) -> None:
    with pytest.raises(UsageError, match="records"):
        first.app.join("views-of-all").to_dict()
    assert first.app.join("views-of-all").df.count() > 0


def test_a_made_table_cannot_be_written(first: After) -> None:
    with pytest.raises(UsageError, match="made from"):
        first.app.table("spent").put({"ann": 1})
