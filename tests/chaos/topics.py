"""Topics, and the records that are put on them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.sources import KEY_COUNT, KeyType, draw_row, python_key
from tests.chaos.tables import Tables, key_text

TOPICS = ("s", "t")
"""Topics whose produced records have timestamps in the first minute of 1970."""

POSTED = "w"
"""A topic to which web views and the step ``Produce`` send records, with the clock's time as timestamp."""

FROM_FILES = "f"
"""A topic whose records are lines of files."""

EVERY_TOPIC = (*TOPICS, POSTED, FROM_FILES)

_SPAN = 60

DrawnRecord = dict[str, Any]
"""A record as drawn: the fields of a row, a unique ``id``, a ``key`` or None, and ``at``, its time in seconds."""


class Record(NamedTuple):
    """A record on a topic: its key as canonical JSON text, its value, and its time in seconds."""

    key: str | None
    value: Any
    at: int


def draw_records(dice: random.Random, _: object) -> list[DrawnRecord]:
    """Some records."""
    return [_draw_record(dice) for _ in range(dice.randint(1, 6))]


def _draw_record(dice: random.Random) -> DrawnRecord:
    key = None if dice.random() < 0.1 else dice.randrange(KEY_COUNT)
    return {**draw_row(dice), "id": dice.randrange(2**40), "key": key, "at": dice.randrange(_SPAN)}


def api_record(record: DrawnRecord, keys: KeyType) -> dict[str, Any]:
    """A record as the API takes it."""
    value = {name: record[name] for name in ("id", "n", "g")}
    return {
        "key": python_key(record["key"], keys),
        "value": {**value, "fk": python_key(record["fk"], keys)},
        "timestamp": record["at"] * 1_000,
    }


def topic_records(tables: Tables, topic: str) -> list[Record]:
    """The records of a topic, in order."""
    return [_record(row) for row in tables.appended(f"topic__{topic}")]


def _record(row: Mapping[str, Any]) -> Record:
    key = None if row["key"] is None else key_text(json.loads(row["key"]))
    return Record(key, json.loads(row["value"]), int(row["timestamp"].timestamp()))


def input_folder(warehouse: Path) -> Path:
    """The folder of the files whose lines become records of a topic."""
    return warehouse.parent / "others" / FROM_FILES


def lines(folder: Path, pattern: str) -> list[Any]:
    """The lines of all files that match a pattern, parsed as JSON."""
    return [json.loads(line) for file in folder.glob(pattern) for line in file.read_text().splitlines()]
