"""The columns and properties of every Delta table this package keeps."""

from __future__ import annotations

from dataclasses import dataclass

from kaspr_delta.plan.definition import Serializers
from kaspr_delta.serde.table_text import column_type

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
PROBLEM = "STRUCT<reason: STRING, detail: STRING, value: STRING>"

PROGRESS = "_kaspr_progress"
DEAD_LETTERS = "_kaspr_dead_letters"
RESOURCES = "_kaspr_resources"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is created. ``change_feed`` tables can be followed by anybody."""

    columns: str
    change_feed: bool = False
    # A reader that comes late starts at version 0, so the log of what is read from its start must not be cleaned early.
    keeps_log: bool = False

    @property
    def properties(self) -> dict[str, str]:
        """Delta table properties."""
        properties = {"delta.checkpointInterval": "50"}
        if self.change_feed:
            properties["delta.enableChangeDataFeed"] = "true"
        if self.keeps_log:
            properties["delta.logRetentionDuration"] = "interval 3650 days"
        return properties


# A topic: order is (_commit_version, seq). Keys and values are bytes, as on a Kafka topic.
TOPIC = Layout(
    f"key BINARY, value BINARY, headers {HEADERS}, timestamp TIMESTAMP, partition INT, seq BIGINT",
    change_feed=True,
    keeps_log=True,
)

# A join's log, which is its channel. One row per touched key whose emission or state changed; `kind` is `value`,
# `tombstone` or `state` (nothing emitted); fk, left_hash, emitted and live are the state of the key from then on.
CHANNEL = Layout(
    "key STRING, kind STRING, left STRING, right STRING, timestamp TIMESTAMP, seq BIGINT, fk STRING, left_hash STRING,"
    f" emitted STRING, live BOOLEAN, instruction STRING, problem {PROBLEM}, failed BOOLEAN,"
    " checkpoint STRING, batch BIGINT",
    change_feed=True,
    keeps_log=True,
)

# An agent's log: its effects. `kind` is `send` (target: a topic), `write` (target: a table; no value: a deletion) or
# `dead-letter` (target: where the record came from).
EFFECTS = Layout(
    f"kind STRING, target STRING, key BINARY, value BINARY, headers {HEADERS}, timestamp TIMESTAMP, partition INT,"
    f" seq BIGINT, problem {PROBLEM}, checkpoint STRING, batch BIGINT",
    change_feed=True,
    keeps_log=True,
)

RESULT = Layout("key STRING, left STRING, right STRING, timestamp TIMESTAMP", change_feed=True)

# State of a join per left key, and its index by foreign key, in one table.
SUBSCRIPTIONS = Layout("key STRING, fk STRING, left_hash STRING, emitted STRING")

SYSTEM = {
    PROGRESS: Layout(
        "resource STRING, checkpoint STRING, batch BIGINT, rows_in BIGINT, rows_out BIGINT,"
        " dead_letters BIGINT, seconds DOUBLE, at TIMESTAMP"
    ),
    DEAD_LETTERS: Layout(
        "resource STRING, source STRING, key STRING, value STRING, reason STRING, detail STRING, timestamp TIMESTAMP,"
        " batch BIGINT"
    ),
    RESOURCES: Layout("position INT, kind STRING, name STRING, origin STRING, file STRING, line INT, text STRING"),
}


def table_layout(serializers: Serializers) -> Layout:
    """The layout of a KasprTable."""
    key, value = column_type(serializers.key), column_type(serializers.value)
    return Layout(f"key {key}, value {value}, timestamp TIMESTAMP", change_feed=True)
