"""Values in the text of DataFusion's SQL, which delta-rs runs. It quotes names as Spark does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from kaspr_delta.storage.spark import sql_text

if TYPE_CHECKING:
    from kaspr_delta.storage.tables import Value


def literal(text: str) -> str:
    """A text literal."""
    return "'" + text.replace("'", "''") + "'"


def moment_literal(moment: datetime) -> str:
    """A literal for a time, of the type that columns have."""
    text = f"{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"
    return f"arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def value_literal(value: Value) -> str:
    """A literal for a value."""
    return sql_text.value_literal(value, literal, moment_literal)


def with_values(text: str, values: Mapping[str, Value]) -> str:
    """SQL text with a literal for each ``{name}``, see ``spark.sql_text.with_values``."""
    return sql_text.with_values(text, values, value_literal)
