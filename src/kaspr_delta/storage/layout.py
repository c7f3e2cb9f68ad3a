"""The columns and properties of every Delta table of this package."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kaspr_delta.plan.definition.resources import TablePlan
from kaspr_delta.plan.definition.storage import StoragePlan
from kaspr_delta.serde.table_text import column_type
from kaspr_delta.spec.ddl import Column, Type, columns_of, names_in

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
PROBLEM = "STRUCT<reason: STRING, detail: STRING, value: STRING>"

# The columns of every log beside the effects of batches: the batch of each row; in one row per batch its memo, and
# where a stream begins its start (engine/batch/log.py).
BATCH = "checkpoint STRING, batch BIGINT, memo STRING, start STRING"
_BATCH_COLUMNS = ("checkpoint", "batch", "memo", "start")

# The time at which a row of a typed table was written, in a column of ours.
WRITTEN_AT = "_timestamp"

COMMIT_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""The columns of a change feed beside those of its table."""

UNCOMPARED = ("timestamp", WRITTEN_AT)
"""Columns with the time at which a row was written: rows that differ in them alone are shown as equal."""

# The hash of the rows that made a row of a result with columns, in a column of ours.
PAIR = "_pair"

SELECTED = "selected"
"""The column of a join's log with the result of its select function as JSON text; NULL if there is no result row."""

CHANGE_FEED = "delta.enableChangeDataFeed"
AUTO_COMPACT = "delta.autoOptimize.autoCompact"
ROW_TRACKING = "delta.enableRowTracking"

PROGRESS = "_kaspr_progress"
DEAD_LETTERS = "_kaspr_dead_letters"
RESOURCES = "_kaspr_resources"
TOPICS = "_kaspr_topics"
EVENTS = "_kaspr_events"


CHECKPOINT_INTERVAL = 50
"""The most commits between two checkpoints of a table: a reader reads these one by one."""

BUCKET_CHECKPOINT_INTERVAL = 10
"""The same in a bucket, where each is a request."""

FEED_RETENTION_DAYS = 30
"""The days for which removed files of a table with a change feed are kept, unless its manifest says otherwise."""

PAGE_BYTES, PAGE_ROWS = 64 << 10, 2_000
"""The most bytes and rows of a Parquet page. A look-up reads the pages that may hold a row."""

NOT_INDEXED = ("left", "left_hash", "emitted")
"""Columns of a join's tables that get neither statistics nor a dictionary.

Their values differ in nearly every row, and no row is looked up by them.
"""


_FILES, _LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"

MAPPED = {"delta.columnMapping.mode": "name"}
"""The property with which Parquet files have other names of columns than the table, so that these may be any text."""


def needs_mapping(columns: Iterable[Column]) -> bool:
    """Whether a column, or a field of one, has a name that Delta refuses without column mapping."""
    return any(_NEEDS_MAPPING.search(name) for name in names_in(columns))


_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns and properties with which a table is created. With ``change_feed``, Delta records one."""

    columns: str
    change_feed: bool = False
    # A new reader starts at version 0: Delta keeps the log of such a table for ten years. On a disk old commits are
    # removed all the same, and their rows can still be read in order (native/old_commits.py).
    keeps_log: bool = False
    # Delta compacts a table of many small appends as part of an append.
    compacts: bool = False
    # Columns with statistics, by which files are skipped. Statistics on all columns of a join's log would take a third
    # of the time in which it is written. If none are named, Delta takes the first 32.
    found_by: tuple[str, ...] = ()
    # Rows are appended, never changed. In a catalog the table has row tracking, which keeps the commit of each row
    # through compaction, so that rows can be read in their order without the change feed. In a folder it has none:
    # delta-rs cannot write such a table.
    only_appended: bool = False
    # Milliseconds that the change feed reaches back at least, also after OPTIMIZE and VACUUM.
    feed_retention: int | None = None
    # The comment of the table, and what its manifest declares for it.
    storage: StoragePlan = field(default_factory=StoragePlan)
    # The columns of its primary key, if it is declared to have one.
    key: tuple[str, ...] = ()
    # The key is one of several that the columns allow: that of a typed table.
    names_key: bool = False

    @property
    def properties(self) -> dict[str, str]:
        """Delta table properties. Only a table whose names need it has column mapping: delta-rs cannot write one."""
        properties = {**dict(self.storage.properties), "delta.checkpointInterval": str(CHECKPOINT_INTERVAL)}
        if needs_mapping(columns_of(self.columns)):
            properties |= MAPPED
        if self.change_feed:
            properties[CHANGE_FEED] = "true"
            # As long as Delta keeps the log by default: the feed needs both.
            properties[_FILES] = f"interval {FEED_RETENTION_DAYS} days"
        if self.keeps_log:
            properties[_LOG] = "interval 3650 days"
        if self.compacts:
            properties[AUTO_COMPACT] = "true"
        if self.found_by:
            properties["delta.dataSkippingStatsColumns"] = ",".join(self.found_by)
        return properties | self.retention

    @property
    def named_key(self) -> str | None:
        """The text of the property KEY; None for a table that has none."""
        return json.dumps(self.key, ensure_ascii=False) if self.names_key else None

    @property
    def folder_properties(self) -> dict[str, str]:
        """The same for a table in a folder, which says its key.

        In a catalog a table may be made anew over files that are there, and its properties have to be the same then.
        """
        return self.properties | ({} if self.named_key is None else {KEY: self.named_key})

    @property
    def catalog_properties(self) -> dict[str, str]:
        """The same for a table of a catalog: an append-only one has row tracking there."""
        tracking = {ROW_TRACKING: "true", TRACKED: "true"}
        return self.properties | (tracking if self.only_appended else {})

    @property
    def fingerprint(self) -> str:
        """A text that differs between layouts."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    @property
    def retention(self) -> dict[str, str]:
        """The properties that may change after the table was created."""
        names = (_FILES,) if self.keeps_log else (_FILES, _LOG)
        kept = self.feed_retention
        return {} if kept is None else dict.fromkeys(names, f"interval {kept} milliseconds")


KEY = "kaspr_delta.key"
"""The property of a typed table in a folder with the columns of its key, as JSON."""


def key_text(names: str) -> str:
    """The columns of a key, given as the property has them, for people."""
    return ", ".join(json.loads(names))


TRACKED = "kaspr_delta.rowsTrackedFromTheBeginning"
"""The property of a table that was created with row tracking.

Where row tracking is turned on later, Delta gives all rows that are there the version of that commit.
"""

RETRY_FOR = "kaspr-retry-for"
"""The header of a record that a retry sends to one reader, whose name it holds (``agent/x``). Others skip it."""


def kind_for(kind: str, reader: str) -> str:
    """The same on a channel, which has no headers: the ``kind`` of a record that is for one reader."""
    return f"{kind} for {reader}"


RECORDS = ("value", "tombstone")
"""The kinds of rows of a channel that are its records; other rows are for the join itself."""


def _of_records(columns: str, *found_by: str) -> Layout:
    """The layout of a topic or channel: rows are appended, and readers follow them from the beginning."""
    return Layout(columns, change_feed=True, keeps_log=True, only_appended=True, found_by=found_by)


# A topic: order is (_commit_version, seq). Keys and values are bytes, as on a Kafka topic.
TOPIC = _of_records(
    f"key BINARY, value BINARY, headers {HEADERS}, timestamp TIMESTAMP, partition INT, seq BIGINT", "timestamp"
)

# A join's log, which is its channel. One row per touched key whose emission or state changed; `kind` is `value`,
# `tombstone` or `state` (nothing emitted); fk, left_hash, emitted and live are the state of the key from then on;
# `stale`: triggered by its right row, but its left row was no longer the one that subscribed.
# Left and right are rows as JSON text, or of the types of typed tables. A record that a retry put there anew has no
# checkpoint and no state: it is for the channel's readers alone, or for one of them (``kind_for``).
CHANNEL = _of_records(
    "key STRING, kind STRING, left STRING, right STRING, timestamp TIMESTAMP, seq BIGINT, fk STRING, left_hash STRING,"
    f" emitted STRING, live BOOLEAN, stale BOOLEAN, problem {PROBLEM}, failed BOOLEAN, {BATCH}",
    *_BATCH_COLUMNS,
)

# The channel of a join with a stream: its result. `kind` is `value`, `state` (nothing emitted) or `expire` (buffered
# rows of a `side` and `partition` that are older than `until` leave); `source` is where the record came from; the
# other columns are the join's own state, kept under `id` while `live`.
STREAM_CHANNEL = _of_records(
    "key STRING, kind STRING, left STRING, right STRING, timestamp TIMESTAMP, seq BIGINT, source STRING, partition INT,"
    " id STRING, side STRING, look_up STRING, until TIMESTAMP, pending BOOLEAN, arrived BIGINT, live BOOLEAN,"
    f" problem {PROBLEM}, failed BOOLEAN, {BATCH}",
    *_BATCH_COLUMNS,
)

# Records of a stream that wait for their row, until a time of the clock.
WAITING = Layout(
    "id STRING, key STRING, left STRING, look_up STRING, source STRING, timestamp TIMESTAMP, until TIMESTAMP"
)

# The foreign key of each row of a table, where streams are joined with it by that.
INDEX = Layout("id STRING, look_up STRING")

# Records of two streams that others may still match, or that may come out unmatched: those are `pending`.
BUFFER = Layout(
    "id STRING, side STRING, partition INT, key STRING, value STRING, timestamp TIMESTAMP, pending BOOLEAN,"
    " arrived BIGINT"
)

# An agent's log: its effects. `kind` is `send` (target: a topic), `write` (target: a table; no value: a deletion),
# `dead-letter` (target: where the record came from), `close` or `expire` (target: a table; its windows that end after
# `window_start`, up to `timestamp`, as far as `stream` wrote them).
_SEND = (
    f"kind STRING, target STRING, key BINARY, value BINARY, headers {HEADERS}, timestamp TIMESTAMP, partition INT,"
    f" seq BIGINT, problem {PROBLEM}"
)
EFFECT = f"{_SEND}, window_start TIMESTAMP, stream STRING"
EFFECTS = Layout(f"{EFFECT}, {BATCH}", found_by=_BATCH_COLUMNS)

# The log of an ingest: its effects are sends to the topic and dead letters, as an agent's, and `source` is the origin
# of each: a topic on Kafka with `source_offset`, or a file.
INGEST = Layout(f"{_SEND}, source STRING, source_offset BIGINT, {BATCH}", found_by=_BATCH_COLUMNS)

# The log of an export: each batch is the records after one offset, up to and with another.
EXPORT = Layout(f"after BIGINT, upto BIGINT, records BIGINT, {BATCH}")

# The log of a table that is made from another resource. `kind` is `write` (key, value: none deletes), `contribution`
# (key: a row of the source table; what it adds to the group `grp` while `live`), `time` (key: a group whose time moved
# and whose value did not; not `live`: a group that is gone), `failed`, or `close` and `expire` as in an agent's log.
AGGREGATED = (
    "kind STRING, key STRING, value STRING, timestamp TIMESTAMP, window_start TIMESTAMP, stream STRING, grp STRING,"
    f" live BOOLEAN, source STRING, problem {PROBLEM}"
)
AGGREGATION = Layout(f"{AGGREGATED}, {BATCH}")

# The contributions of a table's rows to the groups of a table made from it.
CONTRIBUTIONS = Layout("key STRING, grp STRING, value STRING")

# The times of groups of a table that is made from another one, where they are newer than the rows of the groups: a row
# whose value stays is not written, and its time goes on all the same.
GROUP_TIMES = Layout("key STRING, timestamp TIMESTAMP")

# The rows of a result that a rebuild would change, for people. `difference` is `added`, `removed` or `changed`;
# `before` and `after` are the row as JSON text.
DIFFERENCES = Layout("key STRING, difference STRING, before STRING, after STRING")

RESULT = Layout(
    "key STRING, left STRING, right STRING, timestamp TIMESTAMP", change_feed=True, found_by=("key", "timestamp")
)


def shown_layout(result: Layout) -> Layout:
    """The layout of the rows that stand for those of a result in its current view; those without ``keep`` hide them."""
    return Layout(f"{result.columns}, keep BOOLEAN", found_by=result.found_by)


# State of a join per left key, and its index by foreign key, in one table.
SUBSCRIPTIONS = Layout("key STRING, fk STRING, left_hash STRING, emitted STRING", found_by=("key", "fk"))

# The days for which rows of system tables are kept. The last batch of a checkpoint, which is still needed, stays.
RETENTION = {PROGRESS: 30, DEAD_LETTERS: 90, EVENTS: 90}

SYSTEM = {
    PROGRESS: Layout(
        "resource STRING, checkpoint STRING, batch BIGINT, rows_in BIGINT, rows_out BIGINT,"
        " dead_letters BIGINT, stale BIGINT, conflicts BIGINT, seconds DOUBLE, counts STRING, at TIMESTAMP",
        compacts=True,
    ),
    DEAD_LETTERS: Layout(
        "resource STRING, source STRING, key STRING, value STRING, reason STRING, detail STRING, timestamp TIMESTAMP,"
        " batch BIGINT, at TIMESTAMP",
        compacts=True,
    ),
    TOPICS: Layout("name STRING"),
    RESOURCES: Layout(
        "format INT, position INT, kind STRING, name STRING, origin STRING, file STRING, line INT, text STRING,"
        " created TIMESTAMP, generation INT"
    ),
    EVENTS: Layout("at TIMESTAMP, type STRING, reason STRING, kind STRING, name STRING, message STRING", compacts=True),
}


# No resource has a space in its name.
_OF_STATE = " state"
OF_RESOURCES = f"resource NOT LIKE '%{_OF_STATE}'"
"""The condition that a progress row belongs to a resource, not to its state (``state_ref``)."""


DELAY = '["delay", "seconds"]'
"""The counter of a progress row that has a delay: the seconds from the oldest change of a stream to its first batch."""


def state_ref(resource: str) -> str:
    """The name under which progress of a resource's state is recorded, which may lag behind its result."""
    return f"{resource}{_OF_STATE}"


def joined_layout(layout: Layout, left: Type | None, right: Type | None) -> Layout:
    """The layout of a channel or result whose sides have these types; None: text."""
    columns = layout.columns
    for side, kind in (("left", left), ("right", right)):
        columns = columns if kind is None else columns.replace(f" {side} STRING,", f" {side} {kind},")
    return replace(layout, columns=columns)


def result_layout(left: Type | None, right: Type | None) -> Layout:
    """The layout of a result that shows both rows. Typed rows have statistics, JSON text has none."""
    layout = joined_layout(RESULT, left, right)
    return layout if left is None and right is None else replace(layout, found_by=())


def selected_layout(columns: tuple[Column, ...]) -> Layout:
    """The layout of a result that shows these columns."""
    return Layout(
        f"key STRING, {', '.join(map(str, columns))}, {WRITTEN_AT} TIMESTAMP, {PAIR} STRING", change_feed=True
    )


def time_column(plan: TablePlan) -> str:
    """The column with the time at which a row of a table was written."""
    return WRITTEN_AT if plan.typed else "timestamp"


def table_layout(plan: TablePlan) -> Layout:
    """The layout of a KasprTable. In one with windows, `stream` is the input partition that wrote the row last."""
    if plan.typed is not None:
        columns = f"{', '.join(map(str, plan.typed.columns))}, {WRITTEN_AT} TIMESTAMP"
        return Layout(
            columns,
            change_feed=True,
            feed_retention=plan.feed_retention,
            storage=plan.storage,
            key=plan.typed.key,
            names_key=True,
        )
    key, value = column_type(plan.serializers.key), column_type(plan.serializers.value)
    windows = ", window_start TIMESTAMP, window_end TIMESTAMP, stream STRING" if plan.window else ""
    columns = f"key {key}, value {value}, timestamp TIMESTAMP{windows}"
    # Delta refuses statistics of binary columns.
    found_by = tuple(one.name for one in columns_of(columns) if one.name != "value" and one.type.name != "BINARY")
    return Layout(
        columns,
        change_feed=True,
        found_by=found_by,
        feed_retention=plan.feed_retention,
        storage=plan.storage,
        key=("key", "window_start") if plan.window else ("key",),
    )
