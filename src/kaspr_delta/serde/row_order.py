"""The order of rows in Spark: column by column, null before everything."""

from __future__ import annotations

import math
from typing import Any

from kaspr_delta.spec.ddl import Type


def ordered(of: Type, value: Any) -> Any:
    """A sort key that orders values of a type, as functions see them, in the order of Spark.

    Spark does not compare maps: they are compared as lists of their entries, the least key first (see
    ``typed_columns.in_order``).

    >>> ordered(Type("INT"), None) < ordered(Type("INT"), -1)
    True
    """
    if value is None:
        return (False,)
    match of.name:
        case "STRUCT":
            return True, tuple(ordered(column.type, value[column.name]) for column in of.fields)
        case "ARRAY":
            return True, tuple(ordered(of.inner[0], item) for item in value)
        case "MAP":
            return True, tuple(sorted((key, ordered(of.inner[1], item)) for key, item in value.items()))
        case "FLOAT" | "DOUBLE":
            return (True, math.inf, True) if math.isnan(value) else (True, value, False)  # NaN is the greatest
        case _:
            return True, value
