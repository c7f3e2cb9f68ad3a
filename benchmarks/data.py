"""Orders and products, about 200 bytes of JSON each, in the columns of a KasprTable: key, value, timestamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# A prime, so coprime to each size that is no multiple of it: neighbours in a file have keys from the whole table.
_STRIDE = 7_368_787


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of orders and products. ``hot``: a tenth of all orders refers to product 0."""

    orders: int
    products: int
    hot: bool = False

    @classmethod
    def of(cls, orders: int, *, hot: bool = False) -> Size:
        """The given number of orders, and a tenth as many products, at most 100 k."""
        return cls(orders, max(1, min(orders // 10, 100_000)), hot)

    def __str__(self) -> str:
        return f"{_short(self.orders)} x {_short(self.products)}"


def orders(spark: SparkSession, size: Size) -> DataFrame:
    """All orders."""
    scattered = F.pmod(F.col("id") * _STRIDE, F.lit(size.orders))
    return _orders(spark.range(size.orders).select(scattered.alias("id")), size, edition=0)


def products(spark: SparkSession, size: Size) -> DataFrame:
    """All products."""
    return _products(spark.range(size.products), edition=0)


def changed_orders(spark: SparkSession, size: Size, count: int, edition: int) -> DataFrame:
    """``count`` orders, scattered over the table, with ``edition`` as quantity; each edition has other orders."""
    return _orders(_some(spark, size.orders, count, edition), size, edition)


def changed_products(spark: SparkSession, size: Size, count: int, edition: int) -> DataFrame:
    """``count`` products, scattered over the table, with ``edition`` as price; each edition has other products."""
    return _products(_some(spark, size.products, count, edition), edition)


def hot_product(spark: SparkSession, edition: int) -> DataFrame:
    """Product 0 with ``edition`` as price."""
    return _products(spark.range(1), edition)


def _some(spark: SparkSession, rows: int, count: int, edition: int) -> DataFrame:
    return spark.range(count).select(((F.col("id") * (rows // count) + edition) % rows).alias("id"))


def _orders(ids: DataFrame, size: Size, edition: int) -> DataFrame:
    product = F.pmod(F.xxhash64("id"), F.lit(size.products))
    if size.hot:
        product = F.when(F.col("id") % 10 == 0, F.lit(0)).otherwise(product)
    product_id = F.format_string("P%06d", product)
    value = F.struct(product_id.alias("product_id"), F.lit(edition).alias("quantity"), _text(edition).alias("text"))
    return _rows(ids, F.format_string('"O%09d"', "id"), value)


def _products(ids: DataFrame, edition: int) -> DataFrame:
    value = F.struct(F.lit(edition).alias("price"), F.col("id").alias("number"), _text(edition).alias("text"))
    return _rows(ids, F.format_string('"P%06d"', "id"), value)


def _text(edition: int) -> Column:
    """128 hexadecimal digits of a hash, which compress little."""
    return F.sha2(F.concat("id", F.lit(f"/{edition}")), 512)


def _rows(ids: DataFrame, key: Column, value: Column) -> DataFrame:
    return ids.select(key.alias("key"), F.to_json(value).alias("value"), F.current_timestamp().alias("timestamp"))


def _short(count: int) -> str:
    for unit, name in ((1_000_000, " M"), (1_000, " k")):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)
