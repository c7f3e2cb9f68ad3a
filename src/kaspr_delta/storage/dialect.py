"""Values in the text of SQL: of Spark's, and of DataFusion's, which delta-rs runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from kaspr_delta.serde.instants import microseconds
from kaspr_delta.spec.ddl import quoted

if TYPE_CHECKING:
    from kaspr_delta.storage.tables import Value

_FOUND_BY_TEXT = frozenset({"STRING", "CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an SQL engine writes texts, times, bytes and names of columns.

    It finds key columns of the types ``found_by_text`` by their text. If a key has no such column, all rows are read.
    """

    text: Callable[[str], str]
    moment: Callable[[datetime], str]
    binary: Callable[[bytes], str]
    found_by_text: Collection[str] = _FOUND_BY_TEXT
    named: Callable[[str], str] = quoted

    def value(self, value: Value) -> str:
        """A literal for a value."""
        match value:
            case tuple():
                return self.texts(value)
            case datetime():
                return self.moment(value)
            case str():
                return self.text(value)
        return str(value)

    def texts(self, texts: Iterable[str]) -> str:
        """A list of texts, for IN."""
        return f"({', '.join(map(self.text, texts))})"

    def filled(self, sql: str, values: Mapping[str, Value]) -> str:
        """SQL text with a literal for each ``{name}``; neither DELETE nor UPDATE of Delta takes parameters.

        Text without values is left as it is, braces included.
        """
        return sql.format(**{name: self.value(value) for name, value in values.items()}) if values else sql


def _text_of_spark(text: str) -> str:
    """Spark replaces ``${name}`` by a setting, also inside literals, so that is escaped too."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"


def _text_of_datafusion(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _moment_of_datafusion(moment: datetime) -> str:
    """A time of the type that columns have."""
    text = moment.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return f"arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


SPARK = Dialect(
    _text_of_spark,
    lambda moment: f"TIMESTAMP_MICROS({microseconds(moment)})",
    lambda data: f"unhex('{data.hex()}')",
    # delta-rs does not find DECIMAL keys by text: it skips files by statistics in floating point.
    _FOUND_BY_TEXT | {"DECIMAL"},
)
DATAFUSION = Dialect(_text_of_datafusion, _moment_of_datafusion, lambda data: f"X'{data.hex()}'")
