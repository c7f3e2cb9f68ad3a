"""Manifests that one process uses and does not apply: others go on by those that were applied."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.plan.definition.resources import ResourceRef
from tests.manifests import opened
from tests.spark.channels import values_of

BEFORE = """
KasprApp/shop: {{}}
KasprTable/prices: {{key: id, schema: "id STRING, price BIGINT{column}"}}
KasprTask/announce:
  processors:
    pipeline: [say]
    operations:
      - name: say
        topicSend: {{name: announcements}}
        map: {{python: "def say(value): return '{text}'"}}
"""


def texts_of(application: Application) -> list[object]:
    application.run(only=["task/announce"])
    return values_of(application, "announcements")


def test_a_task_of_newer_manifests_runs_and_changes_no_table_of_those_that_were_applied(
    spark: SparkSession, tmp_path: Path
) -> None:
    def shop(column: str, text: str, *, apply: bool = True) -> Application:
        return opened(spark, tmp_path, "shop", BEFORE.format(column=column, text=text), apply=apply)

    before = shop("", "before")
    before.table("prices").put({"a": {"price": 1}})
    newer = shop(", sale BIGINT", "newer", apply=False)
    assert texts_of(newer) == ["newer"]
    (reason,) = (str(reason) for ref, reason in newer.plan.waiting if ref == ResourceRef("table", "prices"))
    assert "until its manifests are applied: its table gets more columns then (sale)" in reason
    later = Application.open(warehouse=tmp_path / "wh", spark=spark)
    assert not later.plan.waiting
    assert [column.name for column in later.delta.columns(spark, "prices")][:2] == ["id", "price"]
    assert texts_of(later) == ["newer", "before"]
    applied = shop(", sale BIGINT", "newer")
    assert not applied.plan.waiting
    assert "sale" in [column.name for column in applied.delta.columns(spark, "prices")]
