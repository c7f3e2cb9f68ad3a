"""Dead letters of real runs that are retried without Spark, and what a run then makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaspr_delta import Application
from kaspr_delta.runtime.dead_letters import DeadLetters
from kaspr_delta.storage.delta_rs import DeltaRs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION = Path(__file__).parent / "applications" / "retry.yaml"


@pytest.mark.slow
@pytest.mark.usefixtures("tables_of_their_own")
def test_what_is_retried_once_the_cause_is_mended_comes_through_once(spark: SparkSession, tmp_path: Path) -> None:
    with Application.open(APPLICATION, warehouse=tmp_path / "wh", spark=spark) as app:
        letters = DeadLetters(DeltaRs(app.delta.namespace), app.plan)
        app.table("rates").put({"EUR": 1})
        app.topic("amounts").produce(
            [
                {"key": "A1", "value": {"amount": 2, "currency": "EUR"}, "timestamp": 1},
                {"key": "A2", "value": {"amount": 3, "currency": "USD"}, "timestamp": 2, "headers": {"trace": "x"}},
            ]
        )
        app.table("products").put({"P": {"price": 5}})
        app.table("orders").put({n: {"product": "P", "currency": currency} for n, currency in ((1, "EUR"), (2, "USD"))})
        app.run()
        assert [letter["source"] for letter in app.dead_letters()] == ["amounts", "priced-orders"]
        assert letters.counts() == {("agent/convert", "amounts"): 1, ("agent/price", "priced-orders"): 1}

        # Retried before the cause is mended, they fail again, each as a letter of its own.
        first = letters.newest(10)
        assert sum(letters.retry(first).records.values()) == 2
        app.run()
        second = letters.newest(10)
        assert len(second) == 2
        assert not {letter.id for letter in first} & {letter.id for letter in second}

        app.table("rates").put({"USD": 10})
        assert sum(letters.retry(second).records.values()) == 2
        assert app.dead_letters() == []
        app.run()
        assert [record["value"] for record in app.topic("converted").records()] == [2, 30]
        assert [record["value"] for record in app.topic("prices").records()] == [5, 50]
        sent = [record for record in app.topic("amounts").records() if record["key"] == "A2"]
        assert len(sent) == 3
        assert {(str(record["headers"]), record["timestamp"], record["partition"]) for record in sent} == {
            (str(sent[0]["headers"]), 2, sent[0]["partition"])
        }
        assert sent[0]["headers"] == {"trace": "x"}

        # The join's state knows nothing of it: nothing is emitted anew, and a change reaches the orders as ever.
        assert app.rebuild("join/priced").resources == {}
        app.table("products").put({"P": {"price": 7}})
        app.run()
        assert sorted(record["value"] for record in app.topic("prices").records()[2:]) == [7, 70]
        assert letters.retry(second).records == {}
