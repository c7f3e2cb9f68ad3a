"""The tables that steps write: in JSON, with columns, or Delta tables of others.

A row of any of them has a key, a foreign key or none, a number and a group. Only their representation differs, so that
each table can be the input of each shape.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

KEY_COUNT = 8
GROUPS = ("x", "y", "z")

Row = dict[str, Any]
"""``fk`` is a number below ``KEY_COUNT`` or None, ``n`` a number, ``g`` a group or None."""

Rows = list[tuple[int, "Row | None"]]
"""Pairs of a key, a number below ``KEY_COUNT``, and its row; None deletes. In JSON a pair is a list."""

Kind = Literal["json", "typed", "foreign"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KeyType = Literal["text", "number"]


def draw_row(dice: random.Random) -> Row:
    """A random row of few possible values, so that some rows are written again unchanged."""
    fk = None if dice.random() < 0.1 else dice.randrange(KEY_COUNT)
    group = None if dice.random() < 0.1 else dice.choice(GROUPS)
    return {"fk": fk, "n": dice.randrange(4), "g": group}


def draw_rows(dice: random.Random, most: int = KEY_COUNT, deleted: float = 0.25) -> Rows:
    """Rows of random keys; some of them are deletions."""
    keys = dice.sample(range(KEY_COUNT), dice.randint(1, most))
    return [(key, None if dice.random() < deleted else draw_row(dice)) for key in keys]


@dataclass(frozen=True)
class Source:
    """A table. ``kind`` is the way it is stored, ``keys`` the type of its keys.

    If it ``has_retention``, its retention is twelve hours; some steps move the clock further.
    """

    name: str
    kind: Kind
    keys: KeyType
    has_retention: bool = False

    @property
    def is_foreign(self) -> bool:
        """Whether it is a Delta table of others, which only they write."""
        return self.kind == "foreign"

    @property
    def has_columns(self) -> bool:
        """Whether its rows have columns."""
        return self.kind != "json"

    def folder(self, warehouse: Path) -> Path:
        """The folder of its Delta table."""
        return warehouse.parent / "others" / self.name if self.is_foreign else warehouse / "chaos" / self.name

    # -- declaration --------------------------------------------------------------------------------------------------

    @property
    def types(self) -> dict[str, str]:
        """The columns and their types, as the table is created."""
        if not self.has_columns:
            return {"key": "STRING", "value": "STRING", "timestamp": "TIMESTAMP"}
        number = "INT" if self.kind == "typed" else "DECIMAL(10, 0)"
        key, fk = ("STRING", "STRING") if self.keys == "text" else (number, "BIGINT")
        return {"id": key, "fk": fk, "n": "INT", "g": "STRING", "price": "DECIMAL(12, 2)", "day": "DATE"}

    def spec(self, warehouse: Path) -> dict[str, Any]:
        """The ``spec`` of its KasprTable."""
        if self.is_foreign:
            return {"source": {"table": str(self.folder(warehouse)), "key": ["id"]}}
        columns = ", ".join(f"{name} {kind}" for name, kind in self.types.items())
        spec: dict[str, Any] = {"schema": columns, "key": ["id"]} if self.has_columns else {}
        if self.has_retention:
            spec["extraTopicConfigs"] = {"cleanup.policy": "compact,delete", "retention.ms": "43200000"}
        return spec

    # -- representation of rows ---------------------------------------------------------------------------------------

    def key(self, number: int | None) -> Any:
        """A key as a Python value of the table's key type."""
        return python_key(number, self.keys)

    def value(self, row: Row | None) -> dict[str, Any] | None:
        """A value as the API takes it. In a table with columns it does not contain the key."""
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
        """A row as SQL literals by column; for None all but the key are null."""
        if not self.has_columns:
            text = "CAST(NULL AS STRING)" if row is None else _text(_json(self.value(row)))
            return {"key": _text(_json(self.key(key))), "value": text, "timestamp": "CAST(NULL AS TIMESTAMP)"}
        values: Mapping[str, Any] = {"id": self.key(key), **(self.value(row) or {})}
        return {
            name: f"CAST({_text(values[name]) if values.get(name) is not None else 'NULL'} AS {kind})"
            for name, kind in self.types.items()
        }

    def key_condition(self, keys: Iterable[int]) -> str:
        """The SQL condition for rows with one of these keys."""
        column = "id" if self.has_columns else "key"
        listed = (self.literals(key, None)[column] for key in keys)
        return f"{column} IN ({', '.join(listed)})"


def python_key(number: int | None, keys: KeyType) -> Any:
    """A key as a Python value: the number itself, or text such as ``K1``."""
    return number if number is None or keys == "number" else f"K{number}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _text(value: Any) -> str:
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
