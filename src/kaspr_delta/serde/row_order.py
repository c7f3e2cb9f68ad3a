"""Which of two rows is the greater one, as Spark has it: column by column, null before everything."""

from __future__ import annotations

import math
from typing import Any

from kaspr_delta.spec.ddl import Type


def can_be_ordered(of: Type) -> bool:
    """Whether Spark compares values of a type: maps it does not."""
    return all(part.name != "MAP" for part in of.parts())


def ordered(of: Type, value: Any) -> Any:
    """What compares as Spark compares values of a type that can be ordered, as functions see them.

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
        case "FLOAT" | "DOUBLE" if math.isnan(value):
            return True, math.inf, True  # greater than infinity
        case "FLOAT" | "DOUBLE":
            return True, value, False
        case _:
            return True, value
