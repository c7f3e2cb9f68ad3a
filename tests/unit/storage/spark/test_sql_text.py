from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.storage.dialect import SPARK
from kaspr_delta.storage.layout import Layout
from kaspr_delta.storage.namespace import LocalNamespace, UnityNamespace
from kaspr_delta.storage.spark.description import Description
from kaspr_delta.storage.spark.sql_text import alterations, creation


def test_a_literal_escapes_quotes_backslashes_and_variables() -> None:
    assert SPARK.text("it's ${spark.app.name} \\n") == "'it\\'s \\u0024{spark.app.name} \\\\n'"


NAMESPACE = UnityNamespace("main", "shop", "v")
STORAGE = StoragePlan("It's ours", ("key",), properties=(("a.b", "1"), ("owner", "x")), tags=(("domain", "sales"),))
LAYOUT = Layout("key STRING, window_start TIMESTAMP", storage=STORAGE, key=("key", "window_start"))
ALTER = "ALTER TABLE `main`.`shop`.`t`"
TAGS = ("tags", [f"{ALTER} SET TAGS ('domain' = 'sales')"])


def altered(described: Description | None, **changes: Any) -> list[tuple[str, list[str]]]:
    return list(alterations(NAMESPACE, "t", replace(LAYOUT, storage=replace(STORAGE, **changes)), described))


def test_a_new_table_gets_its_comment_its_clustering_and_its_properties_as_it_is_created() -> None:
    made = creation(NAMESPACE, "t", LAYOUT, LAYOUT.properties)
    assert "USING DELTA CLUSTER BY (`key`) COMMENT 'It\\'s ours' TBLPROPERTIES ('a.b' = '1', 'owner' = 'x', " in made
    assert altered(None) == [TAGS]
    bare = creation(NAMESPACE, "t", Layout("key STRING"), {"a": "b"})
    assert bare == "CREATE TABLE IF NOT EXISTS `main`.`shop`.`t` (key STRING) USING DELTA TBLPROPERTIES ('a' = 'b')"


def test_an_older_table_gets_what_is_missing() -> None:
    described = Description("MANAGED", "delta", "old", "[a.b=1]")
    (comment, *_), (properties, *_), (clustering, *_), tags = altered(described)
    assert (comment, properties, clustering, tags) == ("comment", "properties", "clusterBy", TAGS)
    assert altered(described)[1][1] == [f"{ALTER} SET TBLPROPERTIES ('owner' = 'x')"]
    same = Description("MANAGED", "delta", "It's ours", "[a.b=1,owner=x]")
    assert [part for part, _ in altered(same, cluster_by=(), tags=())] == []
    assert altered(described, comment="", cluster_by=(), properties=(), tags=()) == []


def test_columns_get_their_comments() -> None:
    comments = (("key", "It's `unique`"), ("window_start", "In UTC"))
    layout = Layout("key STRING, window_start TIMESTAMP", storage=StoragePlan(column_comments=comments))
    made = creation(NAMESPACE, "t", layout, {})
    assert "(`key` STRING COMMENT 'It\\'s `unique`', `window_start` TIMESTAMP COMMENT 'In UTC') USING" in made
    assert list(alterations(NAMESPACE, "t", layout, None)) == []
    described = Description(column_comments=(("key", "It's `unique`"), ("window_start", "in CET"), ("more", "theirs")))
    (change,) = alterations(NAMESPACE, "t", layout, described)
    assert change == ("column comments", [f"{ALTER} ALTER COLUMN `window_start` COMMENT 'In UTC'"])


def test_databricks_may_choose_the_clustering() -> None:
    for described in (None, Description()):
        found = dict(altered(described, cluster_by=(), clusters_itself=True, comment="", properties=()))
        assert found["clusterBy"] == [f"{ALTER} CLUSTER BY AUTO"]


def test_in_a_folder_nothing_is_tried_that_only_databricks_has() -> None:
    layout = replace(LAYOUT, storage=replace(STORAGE, clusters_itself=True, primary_key=True))
    assert list(alterations(LocalNamespace(Path("wh"), "shop", "shop"), "t", layout, None)) == []


def test_a_primary_key_is_of_columns_without_nulls_and_is_made_once() -> None:
    assert altered(None, tags=(), primary_key=True) == [
        (
            "primaryKey",
            [
                f"{ALTER} ALTER COLUMN `key` SET NOT NULL",
                f"{ALTER} ALTER COLUMN `window_start` SET NOT NULL",
                f"{ALTER} ADD CONSTRAINT `pk_t` PRIMARY KEY (`key`, `window_start`) NOT ENFORCED RELY",
            ],
        )
    ]
    there = Description.of([("key", "string", ""), ("# Constraints", "", ""), ("pk_t", "PRIMARY KEY (`key`) RELY", "")])
    assert "primaryKey" not in dict(altered(there, primary_key=True))
