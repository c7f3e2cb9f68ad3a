"""Stateless and ordered agents on Spark: their sends, their table writes and their dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application

SENTENCES = ["a lucky DAY", "boom", "lucky unlucky DAY"]


def open_app(spark: SparkSession, folder: Path) -> Application:
    return Application.open(Path(__file__).parent / "applications" / "agents.yaml", warehouse=folder, spark=spark)


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Application:
    app = open_app(spark, tmp_path_factory.mktemp("agents"))
    app.topic("sentences").produce([{"key": n, "value": text, "timestamp": n} for n, text in enumerate(SENTENCES)])
    app.topic("extra").produce([{"key": None, "value": "lucky"}])
    app.run()
    app.topic("extra").produce([{"key": None, "value": "lucky"}, {"key": None, "value": "new"}])
    app.run()
    return app


def test_generators_fan_out_filters_drop_and_order_is_kept(app: Application) -> None:
    words = [(record["key"], record["value"]["from"]) for record in app.topic("words").records()]
    assert words == [("lucky", 0), ("DAY", 0), ("lucky", 2), ("unlucky", 2), ("DAY", 2)]


def test_outputs_are_independent_and_the_input_key_is_not_inherited(app: Application) -> None:
    loud = app.topic("loud-words").records()
    assert [(record["key"], record["value"]) for record in loud] == [(None, "DAY"), (None, "DAY")]
    assert [record["headers"] for record in app.topic("words").records()][:2] == [{"length": "5"}, {"length": "3"}]


def test_records_carry_the_timestamp_of_their_event(app: Application) -> None:
    assert [record["timestamp"] for record in app.topic("words").records()] == [0, 0, 2, 2, 2]


def test_two_agents_count_exactly_in_one_table(app: Application) -> None:
    assert app.table("counters").to_dict() == {"lucky": 22, "DAY": 2, "new": 10}


def test_a_failed_event_leaves_nothing_but_a_dead_letter(app: Application) -> None:
    letters = app.dead_letters()
    assert [(letter["resource"], letter["source"], letter["reason"]) for letter in letters] == [
        ("agent/split", "sentences", "event failed"),
        ("agent/count", "words", "event failed"),
    ]
    assert letters[0]["value"] == '"boom"'
    assert "ValueError: no words in boom" in letters[0]["detail"]
    assert "the write before this must not stand" in letters[1]["detail"]
    assert app.table("counters").get("unlucky") is None
