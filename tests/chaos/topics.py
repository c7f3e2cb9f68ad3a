"""Topics, and the records that are put on them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.sources import KEYS, Keys, draw_row, spelled
from tests.chaos.tables import Tables, key_text

TOPICS = ("s", "t")
"""Topics whose records have times of a minute of long ago."""

POSTED = "w"
"""A topic on which web views put records, which have the time of the clock."""

FROM_FILES = "f"
"""A topic whose records are lines of files."""

EVERY_TOPIC = (*TOPICS, POSTED, FROM_FILES)

_SPAN = 60

Drawn = dict[str, Any]
"""A record: the fields of a row, ``id`` which no other record has, ``key`` or None, and ``at`` in seconds."""


class Record(NamedTuple):
    """A record as it lies on a topic: its key as canonical JSON text, its value, and its time in seconds."""

    key: str | None
    value: Any
    at: int


def draw_records(dice: random.Random) -> list[Drawn]:
    """Some records."""
    return [_draw_record(dice) for _ in range(dice.randint(1, 6))]


def _draw_record(dice: random.Random) -> Drawn:
    key = None if dice.random() < 0.1 else dice.randrange(KEYS)
    return {**draw_row(dice), "id": dice.randrange(2**40), "key": key, "at": dice.randrange(_SPAN)}


def produced(record: Drawn, keys: Keys) -> dict[str, Any]:
    """A record as the API takes it."""
    value = {name: record[name] for name in ("id", "n", "g")}
    return {
        "key": spelled(record["key"], keys),
        "value": {**value, "fk": spelled(record["fk"], keys)},
        "timestamp": record["at"] * 1_000,
    }


def recorded(tables: Tables, topic: str) -> list[Record]:
    """The records of a topic, in their order."""
    return [_record(row) for row in tables.appended(f"topic__{topic}")]


def _record(row: Mapping[str, Any]) -> Record:
    key = None if row["key"] is None else key_text(json.loads(row["key"]))
    return Record(key, json.loads(row["value"]), int(row["timestamp"].timestamp()))


def dropped(warehouse: Path) -> Path:
    """The folder whose files become records of a topic."""
    return warehouse.parent / "others" / FROM_FILES


def lines(folder: Path, pattern: str) -> list[Any]:
    """The lines of some files, in JSON."""
    return [json.loads(line) for file in folder.glob(pattern) for line in file.read_text().splitlines()]
