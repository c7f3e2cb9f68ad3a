"""``doctor --probe`` is green where the engine runs: in a folder, on Spark Connect, on a catalog."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta.plan.definition.application import Plan
from kaspr_delta.runtime.applying import only_plan
from kaspr_delta.runtime.doctor.bench import LAYOUTS, Bench
from kaspr_delta.runtime.doctor.examination import Wanted, examine
from kaspr_delta.runtime.doctor.probe import Answer
from kaspr_delta.spec.loader import load_text
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import open_tables
from tests.connect import ON_CONNECT
from tests.manifests import manifests
from tests.unity_catalog import ON_UNITY_CATALOG


def plan_of(source: str) -> Plan:
    """The plan of an application that reads one table of others."""
    text = manifests("shop", f'KasprApp/shop: {{}}\nKasprTable/orders: {{source: {{table: "{source}", key: [id]}}}}\n')
    return only_plan(load_text(text, "shop.yaml"), None)


def make_source(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id STRING) USING DELTA TBLPROPERTIES (delta.enableChangeDataFeed = true)")


def answers(bench: Bench, source: str) -> dict[str, Answer]:
    return {probe.name: answer for probe, answer in examine(bench, Wanted(plan_of(source)), seconds=300)}


@pytest.mark.slow
@pytest.mark.skipif(ON_UNITY_CATALOG in os.environ, reason="a catalog is enough there")
def test_a_folder_has_no_problem_and_nothing_is_left_in_it(spark: SparkSession, tmp_path: Path) -> None:
    make_source(spark, f"delta.`{tmp_path}/orders`")
    namespace = Warehouse(str(tmp_path / "wh")).namespace("doctor")
    found = answers(Bench(spark, open_tables(namespace)), f"{tmp_path}/orders")
    notes = {name: answer.seen for name, answer in found.items() if answer.grade != "ok" and name != "versions"}
    assert set(notes) == ({"endless stream"} if ON_CONNECT in os.environ else set()), notes
    assert f"source {tmp_path}/orders" in found
    assert [file.name for file in (tmp_path / "wh" / "doctor").iterdir()] == ["_kaspr"]
    assert namespace.checkpoints.names() == []


@pytest.mark.skipif(not {ON_CONNECT, ON_UNITY_CATALOG} & os.environ.keys(), reason="a folder is enough elsewhere")
def test_a_catalog_has_no_problem_and_nothing_is_left_in_it(spark: SparkSession, catalog: str) -> None:
    delta = open_tables(Warehouse(catalog).namespace("shop"))
    delta.create_schema(spark)
    source = delta.namespace.identifier("others").replace("`", "")
    make_source(spark, delta.namespace.identifier("others"))
    found = answers(Bench(spark, delta), source)
    assert {name: answer.seen for name, answer in found.items() if answer.grade == "problem"} == {}
    notes = {name: answer.seen for name, answer in found.items() if answer.grade == "note"}
    # The index of packages is not reached from everywhere.
    expected = {"endless stream"} if ON_CONNECT in os.environ else set()
    assert set(notes) - {"versions", "package index"} == expected, notes
    assert not any(delta.exists(spark, table) for table in LAYOUTS)
    assert delta.namespace.checkpoints.names() == ["_locks"]
