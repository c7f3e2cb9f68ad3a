"""Emissions and results of foreign-key joins, wave by wave. Scenarios share the waves; each has its own left keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.folders import path_of
from tests.manifests import opened
from tests.spark.channels import last_values, values_of

JOINS = {"inner": "inner-channel", "left": "left-joined"}
ABSENT = "no result"


def order(product_id: Any, **more: Any) -> dict[str, Any]:
    return {"product_id": product_id, **more}


def product(name: str, price: float = 1) -> dict[str, Any]:
    return {"name": name, "price": price}


# The first orders, with their foreign keys, and the first products, with their names.
FIRST_ORDERS = [
    *((name, "P1") for name in ("match", "moves", "dies", "forgets")),
    *(("lonely", "P999"), ("early", "P10"), ("neither", None), ("int", 1), ("text", "1"), ("zero", 0), ("empty", "")),
    *(("false", False), (("list", 1), ["a", 1]), ("odd", "a:b\x00ü")),
]
FIRST_PRODUCTS = [
    *(("P1", "Widget"), ("P2", "Gadget"), (1, "int one"), ("1", "text one"), (0, "zero"), ("", "empty")),
    *((False, "false"), (["a", 1], "list"), ("a:b\x00ü", "odd")),
]
# Orders and products of each wave, None for a deletion. Products are pairs: in a dictionary 0 and False are one key.
WAVES: list[tuple[dict[Any, Any], list[tuple[Any, Any]]]] = [
    (
        {name: order(product_id) for name, product_id in FIRST_ORDERS} | {"raises": {"quantity": 1}},
        [(key, product(name)) for key, name in FIRST_PRODUCTS],
    ),
    ({"moves": order("P2"), "dies": None, "forgets": order(None)}, [("P999", product("Late"))]),
    ({"match": order("P1")}, [("P1", product("Widget", 2)), ("P10", product("Ten")), (1, product("int uno"))]),
    ({"lonely": order("P404"), "dies": order("P1")}, [("P2", None), ("P1", product("Widget", 2)), ("P404", None)]),
]

Emissions = list[dict[Any, Any]]


@pytest.fixture(scope="module")
def wave_results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Emissions]:
    """By join, the emissions of each wave: key to (left, right), or to None for a tombstone."""
    app = open_joins(spark, tmp_path_factory.mktemp("joins"))
    seen = dict.fromkeys(JOINS, 0)
    emissions: dict[str, Emissions] = {name: [] for name in JOINS}
    for orders, products in WAVES:
        app.table("products").put(products)
        app.table("orders").put(orders)
        app.run(only=[f"join/{name}" for name in JOINS])
        for name, channel in JOINS.items():
            records = app.channel(channel).records()
            emissions[name].append({record["key"]: pair(record["value"]) for record in records[seen[name] :]})
            seen[name] = len(records)
    app.run()
    return {**emissions, "named": app.topic("named").records(), "dead": app.dead_letters(), "app": app}  # type: ignore[dict-item]


def open_joins(spark: SparkSession, folder: Path) -> Application:
    return Application.open(Path(__file__).parent / "applications" / "joins.yaml", warehouse=folder, spark=spark)


def pair(value: Any) -> Any:
    return None if value is None else (value["left"], value["right"])


def emitted(wave_results: Mapping[str, Emissions], join: str, key: Any) -> list[Any]:
    return [wave.get(key, ABSENT) for wave in wave_results[join]]


def test_s0_3_inner_emits_nothing_until_the_right_row_comes(wave_results: Mapping[str, Emissions]) -> None:
    late = (order("P999"), product("Late"))
    assert emitted(wave_results, "inner", "lonely") == [ABSENT, late, ABSENT, None]


def test_s0_4_left_shows_the_row_without_a_match_and_again_with_it(wave_results: Mapping[str, Emissions]) -> None:
    left = order("P999")
    assert emitted(wave_results, "left", "lonely")[:2] == [(left, None), (left, product("Late"))]


def test_s0_5_the_reader_of_a_left_join_gets_none_without_a_match(wave_results: Mapping[str, Any]) -> None:
    names = [record["value"]["product_name"] for record in wave_results["named"]]
    assert "Unknown" in names
    assert "Widget" in names


def test_s0_6_a_right_update_triggers_only_its_subscribers(wave_results: Mapping[str, Emissions]) -> None:
    dearer = product("Widget", 2)
    assert emitted(wave_results, "inner", "match")[2] == (order("P1"), dearer)
    assert set(wave_results["inner"][2]) == {"match", "early", "int"}


def test_s0_9_after_a_key_change_only_the_new_key_counts(wave_results: Mapping[str, Emissions]) -> None:
    first, second = (order("P1"), product("Widget")), (order("P2"), product("Gadget"))
    assert emitted(wave_results, "inner", "moves") == [first, second, ABSENT, None]


def test_deleting_a_left_row_emits_a_tombstone_and_a_new_row_starts_again(
    wave_results: Mapping[str, Emissions],
) -> None:
    for join in ("inner", "left"):
        assert emitted(wave_results, join, "dies")[1:] == [None, ABSENT, (order("P1"), product("Widget", 2))]


def test_a_deleted_right_row_is_a_tombstone_in_inner_and_null_in_left_joins(
    wave_results: Mapping[str, Emissions],
) -> None:
    assert emitted(wave_results, "inner", "moves")[3] is None
    assert emitted(wave_results, "left", "moves")[3] == (order("P2"), None)


def test_a_row_that_loses_its_key_leaves_inner_and_is_unmatched_in_left_joins(
    wave_results: Mapping[str, Emissions],
) -> None:
    assert emitted(wave_results, "inner", "forgets")[1:] == [None, ABSENT, ABSENT]
    assert emitted(wave_results, "left", "forgets")[1:] == [(order(None), None), ABSENT, ABSENT]


def test_none_is_no_key_but_zero_false_and_empty_text_are(wave_results: Mapping[str, Emissions]) -> None:
    assert emitted(wave_results, "left", "neither")[0] == (order(None), None)
    assert emitted(wave_results, "inner", "zero")[0] == (order(0), product("zero"))
    assert emitted(wave_results, "inner", "false")[0] == (order(False), product("false"))
    assert emitted(wave_results, "inner", "empty")[0] == (order(""), product("empty"))


def test_the_keys_1_and_text_1_differ_in_look_ups_and_in_triggers(wave_results: Mapping[str, Emissions]) -> None:
    assert emitted(wave_results, "inner", "int")[0] == (order(1), product("int one"))
    assert emitted(wave_results, "inner", "text")[0] == (order("1"), product("text one"))
    assert emitted(wave_results, "inner", "int")[2] == (order(1), product("int uno"))
    assert emitted(wave_results, "inner", "text")[2] == ABSENT


def test_a_right_key_triggers_no_row_of_a_longer_key_with_that_prefix(wave_results: Mapping[str, Emissions]) -> None:
    assert emitted(wave_results, "inner", "early") == [ABSENT, ABSENT, (order("P10"), product("Ten")), ABSENT]


def test_list_keys_and_keys_with_separators_are_joined(wave_results: Mapping[str, Emissions]) -> None:
    assert emitted(wave_results, "inner", ("list", 1))[0] == (order(["a", 1]), product("list"))
    assert emitted(wave_results, "inner", "odd")[0] == (order("a:b\x00ü"), product("odd"))


def test_a_row_written_again_unchanged_emits_nothing(wave_results: Mapping[str, Emissions]) -> None:
    assert set(wave_results["inner"][3]) == {"dies", "lonely", "moves"}  # none of the other orders of P1


def test_an_extractor_that_raises_makes_a_dead_letter_and_a_row_without_key(wave_results: Mapping[str, Any]) -> None:
    letters = [letter for letter in wave_results["dead"] if letter["resource"] == "join/left"]
    assert [(letter["key"], letter["reason"]) for letter in letters] == [('"raises"', "extractor failed")]
    assert "KeyError: 'product_id'" in letters[0]["detail"]
    assert emitted(wave_results, "left", "raises")[0] == ({"quantity": 1}, None)
    assert emitted(wave_results, "inner", "raises") == [ABSENT] * len(WAVES)


MIRROR = """
KasprAgent/mirror:
  input: {channel: {name: left-joined, tombstones: true}}
  output: {topics: [{name: mirrored}]}
"""


def test_two_agents_of_one_channel_both_get_every_record(wave_results: Any, tmp_path: Path) -> None:
    """The second agent is applied later, and reads the channel from its beginning."""
    first: Application = wave_results["app"]
    warehouse = path_of(first.delta.namespace.checkpoints).parents[2]
    app = opened(first.spark, tmp_path, "joins", MIRROR, warehouse)
    app.run(only=["agent/mirror"])
    mirrored = values_of(app, "mirrored")
    emissions = [record["value"] for record in app.channel("left-joined").records()]
    assert sorted(mirrored, key=str) == sorted(emissions, key=str)
    shown = [value for value in emissions if value is not None]
    assert len(app.topic("named").records()) + len(app.dead_letters("agent/name-products")) == len(shown)


def test_the_result_table_is_the_fold_of_the_channel(wave_results: Mapping[str, Any]) -> None:
    app: Application = wave_results["app"]
    for join, channel in JOINS.items():
        assert last_values(app.channel(channel).records()) == app.join(join).to_dict()


def test_subscriptions_are_the_extracted_keys(wave_results: Mapping[str, Any]) -> None:
    app: Application = wave_results["app"]
    rows = app.sql("SELECT key, fk FROM subscriptions__inner WHERE fk IS NOT NULL").collect()
    texts = app.table("orders").table.text
    expected = {
        texts.key(key): texts.key(value["product_id"])
        for key, value in app.table("orders").rows()
        if value.get("product_id") is not None
    }
    assert {row["key"]: row["fk"] for row in rows} == expected
