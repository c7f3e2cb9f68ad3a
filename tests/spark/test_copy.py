"""A copy of a warehouse goes on exactly where the source was, with what a killed run had committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from kaspr_delta.control.copying import copy_warehouse
from kaspr_delta.storage.namespace import Warehouse
from tests.spark.killing import killed, run_others
from tests.spark.test_crash import JOIN, MANIFESTS, outcome, write_wave

pytestmark = pytest.mark.further


def test_batches_that_wait_and_further_ones_give_the_same_results_in_the_source_and_in_the_copy(
    spark: SparkSession, tmp_path: Path
) -> None:
    places = tmp_path / "source", tmp_path / "copy"
    with Application.open(MANIFESTS, warehouse=places[0], spark=spark) as app:
        write_wave(app, 1)
        app.run()
        write_wave(app, 2)
        run_others(app, JOIN)
    # The batch of the join is in its log, and was not folded; its records have no reader yet.
    killed(MANIFESTS, places[0], JOIN, ("channel__orders_products_joined", "after"))
    with Application.open(MANIFESTS, warehouse=places[0], spark=spark) as app:
        write_wave(app, 3)
    source, target = (Warehouse(str(place)) for place in places)
    (copied,) = copy_warehouse(source, target, lambda _: None)
    assert copied.checked.uncounted == {}
    outcomes, counts = [], []
    for place in places:
        with Application.open(MANIFESTS, warehouse=place, spark=spark) as app:
            app.run()
            write_wave(app, 4)
            app.run()
            outcomes.append(outcome(app))
            found = app.status().resources
            counts.append([(str(one.resource), one.rows_in, one.rows_out, one.failures) for one in found])
    assert outcomes[0] == outcomes[1]
    assert counts[0] == counts[1]
    assert "P4" in outcomes[1]["products"]
