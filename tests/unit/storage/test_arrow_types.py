from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from kaspr_delta.storage.arrow_types import arrow_schema_of, spark_schema_of

SCALARS = [
    *(spark.BooleanType(), spark.ByteType(), spark.ShortType(), spark.IntegerType(), spark.LongType()),
    *(spark.FloatType(), spark.DoubleType(), spark.DecimalType(12, 2), spark.StringType(), spark.BinaryType()),
    *(spark.DateType(), spark.TimestampType(), spark.TimestampNTZType(), spark.DayTimeIntervalType()),
    *(spark.NullType(), spark.VariantType()),
]
NESTED = [
    spark.ArrayType(spark.MapType(spark.StringType(), spark.VariantType(), valueContainsNull=False)),
    spark.StructType([spark.StructField("in", spark.ArrayType(spark.LongType(), containsNull=False), nullable=False)]),
]


def row(kind: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField("value", kind)])


@pytest.mark.parametrize("kind", [*SCALARS, *NESTED], ids=lambda kind: kind.simpleString())
def test_a_type_of_spark_goes_to_arrow_and_back(kind: spark.DataType) -> None:
    assert spark_schema_of(arrow_schema_of(row(kind))) == row(kind)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.large_string(), spark.StringType()),
        (pa.large_binary(), spark.BinaryType()),
        (pa.binary(16), spark.BinaryType()),
        (pa.timestamp("ns", "Europe/Rome"), spark.TimestampType()),
        (pa.timestamp("s"), spark.TimestampNTZType()),
        (pa.large_list(pa.int8()), spark.ArrayType(spark.ByteType())),
    ],
    ids=str,
)
def test_arrow_types_with_the_same_values_have_one_spark_type(kind: pa.DataType, expected: spark.DataType) -> None:
    assert spark_schema_of(pa.schema([("value", kind)])) == row(expected)


def test_the_error_names_a_type_without_a_counterpart() -> None:
    with pytest.raises(TypeError, match="uint8"):
        spark_schema_of(pa.schema([("value", pa.uint8())]))
    with pytest.raises(TypeError, match="interval year to month has no values in Arrow"):
        arrow_schema_of(row(spark.YearMonthIntervalType()))


def test_text_of_any_collation_is_text() -> None:
    assert arrow_schema_of(row(spark.StringType("UTF8_LCASE"))).field("value").type == pa.string()
