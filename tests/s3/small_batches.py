"""The operations of small batches of a join that need no Spark: ``small_batches.py WAREHOUSE BATCHES ENDPOINT``.

Before each batch a price is changed by another writer, at a server of its own.
"""

from __future__ import annotations

import sys
from datetime import datetime, timezone

import pyarrow as pa
from deltalake import write_deltalake

from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.layout import PROGRESS, RESULT, SYSTEM, Layout
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.opening import folder_tables, open_tables
from kaspr_delta.storage.system_tables import arrow_rows
from kaspr_delta.storage.tables import Transaction, Upsert
from tests.s3.appender import never

ROWS = Layout("key STRING, value STRING", change_feed=True)
SUBSCRIPTIONS = Layout("key STRING, fk STRING", change_feed=True)


def rows(layout: Layout, *found: dict[str, str]) -> pa.Table:
    """Rows with the columns of a layout."""
    return pa.Table.from_pylist(list(found), arrow_schema(layout.columns))


def main(warehouse: str, batches: int, endpoint: str) -> None:
    """Create the tables, and run the batches."""
    namespace = Warehouse(warehouse).namespace("shop")
    native, delta, spark = folder_tables(namespace), open_tables(namespace), never()
    assert isinstance(native, DeltaRs)
    for table, layout in (("orders", ROWS), ("products", ROWS), ("subscriptions", SUBSCRIPTIONS)):
        native.ensure(table, layout)
    for table, layout in (("log", RESULT), ("result", RESULT), (PROGRESS, SYSTEM[PROGRESS])):
        native.ensure(table, layout)
    native.append("orders", rows(ROWS, {"key": "O1", "value": "{}"}))
    native.append("subscriptions", rows(SUBSCRIPTIONS, {"key": "O1", "fk": "P1"}))
    report = ("join/orders", "c", 1, 1, 1, 0, 0, 0, 0.1, "{}", datetime.now(timezone.utc))
    how = Upsert(compare=("left", "right"), keep="keep")
    products = str(native.folder("products"))
    direct = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    for number in range(batches):
        price = rows(ROWS, {"key": "P1", "value": str(number)})
        write_deltalake(products, price, mode="overwrite", storage_options=direct)
        pinned = {table: delta.newest(spark, table).version for table in ("orders", "products")}
        delta.look_up(spark, "subscriptions", {"fk": ["P1"]})
        delta.look_up(spark, "orders", {"key": ["O1"]}, pinned["orders"])
        delta.look_up(spark, "products", {"key": ["P1"]}, pinned["products"])
        result = rows(RESULT, {"key": "O1", "left": "{}", "right": str(number)})
        delta.append(spark, result, "log", Transaction("batches", number))
        delta.merge(spark, result.append_column("keep", pa.array([True])), "result", how)
        delta.append(spark, arrow_rows(PROGRESS, [report]), PROGRESS)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
