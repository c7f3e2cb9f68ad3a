"""Many rows for the tables of this application, as Parquet files.

    python bundles/retail/generate.py FOLDER [--orders 1000000] [--products 100000] [--customers 200000]

The same numbers give the same rows.
"""

from __future__ import annotations

import argparse
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_COUNTRIES = ("DE", "FR", "SE", "PL", "ES", "IT")
_CATEGORIES = ("tools", "home", "toys", "books")
_FIRST_DAY = 19_000  # days since 1970
_DAYS = 730


def main() -> None:
    """Write orders.parquet, products.parquet and customers.parquet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--products", type=int, default=100_000)
    parser.add_argument("--customers", type=int, default=200_000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "products": products(given.products),
        "customers": customers(given.customers),
        "orders": orders(given.orders, given.products, given.customers),
    }
    for name, table in tables.items():
        pq.write_table(table, given.folder / f"{name}.parquet")
        print(f"{given.folder / name}.parquet: {table.num_rows} rows")  # noqa: T201  a program for the command line


def products(count: int) -> pa.Table:
    """Products P0, P1, … with prices from 0.99 to 100.98."""
    numbers = pa.array(range(count))
    price = pc.add(_modulo(numbers, 101).cast(pa.decimal128(21, 2)), Decimal("0.99"))
    return pa.table(
        {
            "product_id": _named("P", numbers),
            "name": _named("Product ", numbers),
            "price": price.cast(pa.decimal128(10, 2)),
            "category": _one_of(_CATEGORIES, numbers),
        }
    )


def customers(count: int) -> pa.Table:
    """Customers 0, 1, …, in six countries."""
    numbers = pa.array(range(count))
    return pa.table(
        {"customer_id": numbers, "name": _named("Customer ", numbers), "country": _one_of(_COUNTRIES, numbers)}
    )


def orders(count: int, of_products: int, of_customers: int) -> pa.Table:
    """Orders O0, O1, …: some refer to products that do not exist, and a tenth of them to seven popular products."""
    numbers = pa.array(range(count))
    popular = pc.equal(_modulo(numbers, 10), 0)
    any_product = _modulo(pc.multiply(numbers, 7_919), of_products + of_products // 50)
    product = pc.if_else(popular, _modulo(numbers, 7), any_product)
    days = pc.add(_modulo(pc.multiply(numbers, 31), _DAYS), _FIRST_DAY)
    return pa.table(
        {
            "order_id": _named("O", numbers),
            "customer_id": _modulo(pc.multiply(numbers, 104_729), of_customers),
            "product_id": _named("P", product),
            "quantity": pc.add(_modulo(numbers, 9), 1).cast(pa.int32()),
            "ordered": days.cast(pa.int32()).cast(pa.date32()),
        }
    )


def _modulo(numbers: pa.Array, by: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by))


def _named(prefix: str, numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(prefix, numbers.cast(pa.string()), "")


def _one_of(names: tuple[str, ...], numbers: pa.Array) -> pa.Array:
    return pa.array(names).take(_modulo(numbers, len(names)))


if __name__ == "__main__":
    main()
