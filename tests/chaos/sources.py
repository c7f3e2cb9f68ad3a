"""Tables that somebody writes: in JSON, with columns, or Delta tables of others.

All hold the same rows, however they spell them, so that any of them can stand on any side of any shape: a key, a
foreign key or none, a number and a group.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

KEYS = 8
GROUPS = ("x", "y", "z")

Row = dict[str, Any]
"""``key`` and ``fk`` are numbers below ``KEYS``, ``n`` is a number, ``g`` a group; all but the key may be None."""

Rows = list[tuple[int, "Row | None"]]
"""Rows by their keys; None deletes. As JSON pairs are lists."""

Keys = Literal["text", "number"]
_ID = {
    "text": {"typed": "STRING", "foreign": "STRING"},
    "number": {"typed": "INT", "foreign": "DECIMAL(10, 0)"},
}


def draw_row(dice: random.Random) -> Row:
    """Few values, so that some rows are written again unchanged."""
    fk = None if dice.random() < 0.1 else dice.randrange(KEYS)
    group = None if dice.random() < 0.1 else dice.choice(GROUPS)
    return {"fk": fk, "n": dice.randrange(4), "g": group}


def draw_rows(dice: random.Random, most: int = KEYS, deleted: float = 0.25) -> Rows:
    """Some of the keys, a part of them to be deleted."""
    keys = dice.sample(range(KEYS), dice.randint(1, most))
    return [(key, None if dice.random() < deleted else draw_row(dice)) for key in keys]


@dataclass(frozen=True)
class Source:
    """A table. ``kind`` is how it is kept, ``keys`` what its keys are.

    One that ``forgets`` keeps rows for twelve hours: not for long, where clocks jump.
    """

    name: str
    kind: Literal["json", "typed", "foreign"]
    keys: Keys
    forgets: bool = False

    @property
    def is_foreign(self) -> bool:
        """Whether only others write it."""
        return self.kind == "foreign"

    @property
    def has_columns(self) -> bool:
        """Whether its rows have columns."""
        return self.kind != "json"

    def folder(self, warehouse: Path) -> Path:
        """Where its Delta table is."""
        return warehouse.parent / "others" / self.name if self.is_foreign else warehouse / "chaos" / self.name

    # -- how it is declared -------------------------------------------------------------------------------------------

    @property
    def types(self) -> dict[str, str]:
        """The columns with their types, as this table begins."""
        if not self.has_columns:
            return {"key": "STRING", "value": "STRING", "timestamp": "TIMESTAMP"}
        fk = "STRING" if self.keys == "text" else "BIGINT"
        return {
            "id": _ID[self.keys][self.kind],
            "fk": fk,
            "n": "INT",
            "g": "STRING",
            "price": "DECIMAL(12, 2)",
            "day": "DATE",
        }

    def spec(self, warehouse: Path) -> str:
        """The ``spec`` of its KasprTable, as YAML in one line."""
        if self.is_foreign:
            return f"{{source: {{table: {self.folder(warehouse)}, key: [id]}}}}"
        if self.has_columns:
            columns = ", ".join(f"{name} {kind}" for name, kind in self.types.items())
            return f'{{schema: "{columns}", key: [id]{self._kept}}}'
        return f"{{name: {self.name}{self._kept}}}"

    @property
    def _kept(self) -> str:
        policy = "{cleanup.policy: 'compact,delete', retention.ms: '43200000'}"
        return f", extraTopicConfigs: {policy}" if self.forgets else ""

    # -- how it spells rows -------------------------------------------------------------------------------------------

    def key(self, number: int | None) -> Any:
        """A key as Python has it."""
        return spelled(number, self.keys)

    def value(self, row: Row | None) -> dict[str, Any] | None:
        """A value as functions see it; of a table with columns without the key."""
        if row is None:
            return None
        value = {"fk": self.key(row["fk"]), "n": row["n"], "g": row["g"]}
        if not self.has_columns:
            return value
        return {**value, "price": f"{row['n']}.50", "day": f"2024-02-{27 + row['n'] % 3}"}

    def values(self, rows: Rows) -> dict[Any, Any]:
        """Rows as the API takes them."""
        return {self.key(key): self.value(row) for key, row in rows}

    def literals(self, key: int, row: Row | None) -> dict[str, str]:
        """A row as SQL literals by column; of None the key alone says something."""
        if not self.has_columns:
            text = "CAST(NULL AS STRING)" if row is None else _text(_json(self.value(row)))
            return {"key": _text(_json(self.key(key))), "value": text, "timestamp": "CAST(NULL AS TIMESTAMP)"}
        values: Mapping[str, Any] = {"id": self.key(key), **(self.value(row) or {})}
        return {
            name: f"CAST({_text(values[name]) if values.get(name) is not None else 'NULL'} AS {kind})"
            for name, kind in self.types.items()
        }

    def keyed(self, keys: Iterable[int]) -> str:
        """The SQL condition that a row has one of some keys."""
        column = "id" if self.has_columns else "key"
        listed = (self.literals(key, None)[column] for key in keys)
        return f"{column} IN ({', '.join(listed)})"


def spelled(number: int | None, keys: Keys) -> Any:
    """A key as Python has it."""
    return number if number is None or keys == "number" else f"K{number}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _text(value: Any) -> str:
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
