"""Keys and values of bytes of any length: Spark and Python write the same base64 text."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application

Rows = dict[bytes, bytes]
MANIFESTS = Path(__file__).parent / "applications" / "raw_keys.yaml"
# Base64 of 57 bytes is one line of 76 characters.
PARTS = [b"part", b"\x00" * 57, b"\xff" * 58, bytes(range(60)), b"part" * 500]
USES = [bytes([number]) + b"use" * 30 for number in range(15)]


class World:
    """An application, and the rows and records that were written to it."""

    def __init__(self, opened: Callable[[], Application]) -> None:
        self.opened = opened
        self.parts: Rows = {}
        self.uses: Rows = {}
        self.sightings: list[bytes] = []

    def put(self, parts: dict[bytes, bytes | None], uses: dict[bytes, bytes | None], sightings: list[bytes]) -> None:
        """Change the tables, send to the topic, and run."""
        app = self.opened()
        for table, held, rows in (("parts", self.parts, parts), ("uses", self.uses, uses)):
            app.table(table).put(rows)
            held |= {key: value for key, value in rows.items() if value is not None}
            for key in [key for key, value in rows.items() if value is None]:
                held.pop(key, None)
        app.topic("sightings").produce([{"key": one, "value": one, "timestamp": 1_000} for one in sightings])
        self.sightings += sightings
        app.run()

    def assert_joined_and_counted(self) -> None:
        app = self.opened()
        uses_of = Counter(self.uses.values())
        assert app.table("uses-by-part").to_dict() == uses_of
        assert app.table("seen").to_dict() == Counter(self.sightings)
        joined = {
            use: {"left": part, "right": self.parts[part]} for use, part in self.uses.items() if part in self.parts
        }
        assert app.join("parts-of-uses").to_dict() == joined
        same = {part: {"left": name, "right": uses_of[part]} for part, name in self.parts.items() if uses_of[part]}
        assert app.join("same").to_dict() == same
        assert {use: row["right"] for use, row in app.join("twice").to_dict().items()} == {
            use: as_json(same[part]) for use, part in self.uses.items() if part in same
        }
        for join in ("parts-of-uses", "same"):
            assert state_of_channel(app, join) == app.join(join).to_dict()


def as_json(pair: dict[str, Any]) -> dict[str, Any]:
    """A pair as a function sees it in the JSON of a result: bytes are base64 text."""
    return {
        side: base64.b64encode(value).decode() if isinstance(value, bytes) else value for side, value in pair.items()
    }


def state_of_channel(app: Application, join: str) -> dict[Any, Any]:
    """The state that the records of a channel add up to. Asserts that no record repeats its key's last value."""
    held: dict[Any, Any] = {}
    for record in app.channel(f"{join}-channel").records():
        key, value = record["key"], record["value"]
        assert held.get(key) != value
        held[key] = value
    return {key: value for key, value in held.items() if value is not None}


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(lambda: Application.open(MANIFESTS, warehouse=tmp_path, spark=spark))


def first(world: World) -> None:
    world.put(dict.fromkeys(PARTS, b"first" * 20), {use: PARTS[n % 5] for n, use in enumerate(USES)}, PARTS * 2)


def second(world: World) -> None:
    """Change, delete and add a part. Move two uses to other parts, write one again unchanged, and delete one."""
    parts: dict[bytes, bytes | None] = {PARTS[1]: b"second" * 20, PARTS[3]: None, b"none" * 30: b"new"}
    uses: dict[bytes, bytes | None] = {USES[0]: PARTS[4], USES[1]: None, USES[2]: PARTS[2], USES[4]: b"none" * 30}
    world.put(parts, uses, [*PARTS, b"none" * 30])


@pytest.mark.slow
def test_keys_of_any_length_are_counted_and_joined(world: World) -> None:
    for wave in (first, second):
        wave(world)
        world.assert_joined_and_counted()
    assert world.opened().dead_letters() == []
