"""The explanation of a row after runs: by delta-rs, and by a session as over a catalog."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta.api.join import JoinHandle
from kaspr_delta.control.follow import Followed, Follower
from kaspr_delta.storage.page_reads import RowReads
from kaspr_delta.storage.session_reads import SessionRowReads, row_reads
from tests.manifests import opened

pytestmark = pytest.mark.further

MANIFESTS = """
KasprTable/orders: {}
KasprTable/products: {schema: "sku STRING, price DECIMAL(9, 2)", key: [sku]}
KasprJoin/priced:
  leftTable: orders
  rightTable: products
  type: left
  extractor: {python: "def product(order): return order['product']"}
KasprJoin/prices:
  leftTable: orders
  rightTable: products
  type: left
  extractor: {python: "def product(order): return order['product']"}
  select: {columns: {price: right.price}}
"""


def test_a_run_brings_the_result_to_its_rows_and_a_session_reads_the_same(spark: SparkSession, tmp_path: Path) -> None:
    app = opened(spark, tmp_path, "shop", MANIFESTS)
    app.table("orders").put({"O1": {"product": "P1"}, "O2": {"product": "P9"}, "O3": {"product": None}})
    app.table("products").put({"P1": {"price": "5.00"}})
    app.run()
    app.table("products").put({"P1": {"price": "6.00"}})
    for join, newest in (("priced", "result"), ("prices", "newest response")):
        handle = app.join(join)
        assert isinstance(handle, JoinHandle)

        def followed(reads: RowReads, key: str, handle: JoinHandle = handle) -> Followed:
            return Follower(reads, handle.application, handle.join).follow([f'"{key}"'])

        changed = handle.explain("O1")
        assert changed.reasons[-1].startswith("A row has changed since the newest response")
        for key in ("O1", "O2", "O3", "none"):
            by_session = followed(SessionRowReads(spark, app.delta), key)
            assert by_session == followed(row_reads(spark, app.delta), key)
            assert [station.why_not for station in by_session.stations] == [""] * 5
        assert handle.explain("O2").reasons[-1] == f"The {newest} is that of the rows as they are now."
        assert "the extractor returned None" in handle.explain("O3").reasons[0]
    app.run()
    for join in ("priced", "prices"):
        (*_, last) = app.join(join).explain("O1").reasons
        assert last.endswith("is that of the rows as they are now.")
        assert len(app.join(join).explain("O1").stations[3].rows) == 2
