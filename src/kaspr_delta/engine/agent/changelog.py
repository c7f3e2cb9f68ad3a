"""The changelog of a table as a topic: a record sent to it is written to the table, as in Kafka.

So a table can be filled before any agent runs, and an agent can write a table that it does not read.
"""

from __future__ import annotations

from kaspr_delta.engine.agent.table import WRITTEN_BY_OTHERS
from kaspr_delta.engine.streams.effect import Effect
from kaspr_delta.errors import SerializationError
from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.serde.serializers import decode
from kaspr_delta.serde.typed_text import text_of

HAS_WINDOWS = "table {!r} has windows: only agents write it, by the time of their events"
"""The error for a write to a table with windows, except by an agent."""


def table_write(record: Effect, table: TablePlan) -> tuple[str, str | None]:
    """The row of a changelog record: the texts of its key and of its value (None for a tombstone).

    The bytes are decoded with the table's serializers. Raises SerializationError for bytes that cannot be decoded, for
    a record without a key, for a table with windows, whose rows need more than a key, and for a foreign table.
    """
    if table.window is not None:
        raise SerializationError(HAS_WINDOWS.format(table.name))
    if table.is_foreign:
        raise SerializationError(WRITTEN_BY_OTHERS.format(table.name))
    text = text_of(table)
    key = decode(table.serializers.key, record.key)
    return text.key(key), text.row(key, decode(table.serializers.value, record.value))
