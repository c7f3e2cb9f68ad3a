"""Types of DDL and of Spark in Arrow, and back: Spark's own conversion is not public and differs between versions.

Also Arrow tables on the driver as DataFrames, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from kaspr_delta.spec.ddl import Type, columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# By the name of a type in DDL: the name of Spark's class, and the type in Arrow.
_SCALARS = {
    "BOOLEAN": ("BooleanType", pa.bool_()),
    "TINYINT": ("ByteType", pa.int8()),
    "SMALLINT": ("ShortType", pa.int16()),
    "INT": ("IntegerType", pa.int32()),
    "BIGINT": ("LongType", pa.int64()),
    "FLOAT": ("FloatType", pa.float32()),
    "DOUBLE": ("DoubleType", pa.float64()),
    **dict.fromkeys(("CHAR", "VARCHAR", "STRING"), ("StringType", pa.string())),
    "BINARY": ("BinaryType", pa.binary()),
    "DATE": ("DateType", pa.date32()),
    "TIMESTAMP": ("TimestampType", pa.timestamp("us", "UTC")),
    "TIMESTAMP_NTZ": ("TimestampNTZType", pa.timestamp("us")),
    "INTERVAL DAY TO SECOND": ("DayTimeIntervalType", pa.duration("us")),
    "VOID": ("NullType", pa.null()),
}
_OF_SPARK = dict(_SCALARS.values())
_TO_SPARK = {arrow: name for name, arrow in _SCALARS.values()}
# Spark's mark of the STRUCT that holds a VARIANT in Arrow.
_VARIANT = {b"variant": b"true"}


def arrow_schema(columns: str) -> pa.Schema:
    """The columns of a layout as an Arrow schema.

    >>> arrow_schema("name STRING, at TIMESTAMP").names
    ['name', 'at']
    """
    return pa.schema([(column.name, _arrow_of_ddl(column.type)) for column in columns_of(columns)])


def arrow_schema_of(columns: StructType) -> pa.Schema:
    """The columns that ``toArrow`` gives, with times in UTC.

    Raises TypeError for a type that has no values in Arrow.
    """
    return pa.schema([pa.field(one.name, _arrow_type(one.dataType), one.nullable) for one in columns])


def batch_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as Arrow, given their values in the order of the columns."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def aligned(rows: pa.Table) -> pa.Table:
    """Copy rows into buffers of their own if a type needs an alignment of 16 bytes, as DECIMAL does.

    Spark sends buffers that are aligned to 8 bytes. delta-rs aborts the process when it is given one of them.
    """
    # The text of a type shows the types inside it. A field that is called so only costs a copy.
    if not any("decimal" in str(field.type) for field in rows.schema):
        return rows
    return rows.take(pa.array(range(rows.num_rows), pa.int64()))


def without_views(field: pa.Field) -> pa.Field:
    """A field with plain texts and bytes instead of views, at any depth.

    >>> without_views(pa.field("names", pa.list_(pa.string_view())))
    pyarrow.Field<names: list<item: string>>
    """
    kind = field.type
    if pt.is_string_view(kind):
        kind = pa.string()
    elif pt.is_binary_view(kind):
        kind = pa.binary()
    elif pt.is_struct(kind):
        kind = pa.struct(map(without_views, kind))
    elif pt.is_map(kind):
        kind = pa.map_(without_views(kind.key_field), without_views(kind.item_field))
    elif pt.is_list(kind):
        kind = pa.list_(without_views(kind.value_field))
    return field.with_type(kind)


def spark_schema_of(schema: pa.Schema) -> StructType:
    """The columns as ``createDataFrame`` takes them; times without a zone are TIMESTAMP_NTZ.

    Raises TypeError for a type that Spark has not.
    """
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(one.name, _spark_type(one.type), one.nullable) for one in schema])


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A DataFrame of one partition. A table without rows keeps its columns."""
    # One chunk: Spark stops reading at an empty one.
    data = rows.combine_chunks() if rows.num_rows else []
    return spark.createDataFrame(data, spark_schema_of(rows.schema)).coalesce(1)


def collected(df: DataFrame) -> pa.Table:
    """The rows of a DataFrame as an Arrow table; one Spark action."""
    rows = df.toArrow()
    # Spark Connect 4.0 sends an empty result with text and list columns whose offset buffer is empty: to read it ends
    # the process.
    return rows if rows.num_rows else rows.schema.empty_table()


def _arrow_of_ddl(kind: Type) -> pa.DataType:
    if kind.name == "ARRAY":
        return pa.list_(_arrow_of_ddl(kind.inner[0]))
    if kind.name == "STRUCT":
        return pa.struct([(column.name, _arrow_of_ddl(column.type)) for column in kind.fields])
    if kind.name == "MAP":
        return pa.map_(*map(_arrow_of_ddl, kind.inner))
    if kind.name == "DECIMAL":
        return pa.decimal128(*kind.size)
    return _SCALARS[kind.name][1]


def _arrow_type(kind: DataType) -> pa.DataType:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType, VariantType

    match kind:
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case ArrayType():
            return pa.list_(pa.field("element", _arrow_type(kind.elementType), kind.containsNull))
        case MapType():
            key = pa.field("key", _arrow_type(kind.keyType), nullable=False)
            return pa.map_(key, pa.field("value", _arrow_type(kind.valueType), kind.valueContainsNull))
        case StructType():
            return pa.struct(list(arrow_schema_of(kind)))
        case VariantType():
            value = pa.field("value", pa.binary(), nullable=False)
            return pa.struct([value, pa.field("metadata", pa.binary(), nullable=False, metadata=_VARIANT)])
    found = _OF_SPARK.get(type(kind).__name__)
    if found is None:
        msg = f"{kind.simpleString()} has no values in Arrow"
        raise TypeError(msg)
    return found


def _spark_type(kind: pa.DataType) -> DataType:
    from pyspark.sql import types as spark

    if pt.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type), kind.value_field.nullable)
    if pt.is_map(kind):
        return spark.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type), kind.item_field.nullable)
    if pt.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        marked = any(one.metadata == _VARIANT for one in fields)
        return spark.VariantType() if marked else spark_schema_of(pa.schema(fields))
    name = _TO_SPARK.get(_plain(kind))
    if name is None:
        msg = f"Spark has no type for values of {kind}"
        raise TypeError(msg)
    found: DataType = getattr(spark, name)()
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    """Of the types that hold the same values the one that Spark gives."""
    if pt.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pt.is_large_string(kind):
        return pa.string()
    return pa.binary() if pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) else kind
