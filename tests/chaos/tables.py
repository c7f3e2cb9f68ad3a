"""Reads Delta tables without the engine, and makes their values comparable."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.chaos.sources import Source

SEQ_BITS = 34  # of an offset: the low bits, below the version

Stored = list[dict[str, Any]]
Values = dict[str, Any]
"""Values as ``plain`` returns them, by key as canonical JSON text."""

_NEVER = datetime.min.replace(tzinfo=timezone.utc)


class Tables:
    """The tables of one warehouse. Each is read once per quiet point, by ``on_spark`` if delta-rs cannot read it."""

    def __init__(self, warehouse: Path, on_spark: Callable[[Path], Stored]) -> None:
        self.warehouse = warehouse
        self._on_spark = on_spark
        self._read: dict[tuple[str, Path], Stored] = {}

    def forget(self) -> None:
        """Forget what was read: the tables may have changed."""
        self._read.clear()

    def rows(self, table: str) -> Stored:
        """The rows of a table of the application, by its Delta name."""
        return self._once("rows", self.warehouse / "chaos" / table, self._rows)

    def feed(self, table: str) -> Stored:
        """All changes of a table of the application."""
        return self._once("feed", self.warehouse / "chaos" / table, _changes)

    def appended(self, table: str) -> Stored:
        """The rows appended to a topic or channel, in the order of their offsets."""
        rows = [row for row in self.feed(table) if row["_change_type"] == "insert"]
        return sorted(rows, key=lambda row: (row["_commit_version"] << SEQ_BITS) + (row["seq"] or 0))

    def live(self, source: Source) -> Values:
        """The rows of a source, one per key: of several the newest, and of equally new ones the greatest."""
        best: dict[str, tuple[Any, Any]] = {}
        for row in self._once("rows", source.folder(self.warehouse), self._rows):
            key, place, value = _typed(row) if source.has_columns else _in_json(row)
            if key is not None and value is not None and (key not in best or place > best[key][0]):
                best[key] = (place, value)
        return {key: value for key, (_, value) in best.items()}

    def made(self, table: str) -> Values:
        """The values of a made table."""
        return {row["key"]: plain(row["value"]) for row in self.rows(table)}

    def noted(self, shape: str) -> Stored:
        """The notes that were written for a shape when records were put on its topic."""
        file = notes_of(self.warehouse, shape)
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def _once(self, what: str, folder: Path, read: Callable[[Path], Stored]) -> Stored:
        if (what, folder) not in self._read:
            self._read[what, folder] = read(folder)
        return self._read[what, folder]

    def _rows(self, folder: Path) -> Stored:
        table = DeltaTable(str(folder))
        if table.protocol().min_reader_version > 1:
            return self._on_spark(folder)
        rows: Stored = table.to_pyarrow_table().to_pylist()
        return rows


def notes_of(warehouse: Path, shape: str) -> Path:
    """The file of notes: the pairs that a shape must make of records."""
    return warehouse.parent / f"{shape}.notes"


def _changes(folder: Path) -> Stored:
    """The change feed as Spark reads it: without a MERGE that only copied rows, such as a repeated fold."""
    table = DeltaTable(str(folder))
    copied = {commit["version"] for commit in table.history() if _only_copied(commit)}
    changes: Stored = pa.table(table.load_cdf(starting_version=0)).to_pylist()
    return [change for change in changes if change["_commit_version"] not in copied]


def _only_copied(commit: Mapping[str, Any]) -> bool:
    counted = commit.get("operationMetrics") or {}
    changed = (int(counted.get(f"numTargetRows{kind}", 1)) for kind in ("Inserted", "Updated", "Deleted"))
    return commit["operation"] == "MERGE" and not any(changed)


def _in_json(row: Mapping[str, Any]) -> tuple[str | None, Any, Any]:
    """Key, rank among the rows of one key, and value."""
    place = (row["timestamp"] or _NEVER, row["value"] or "")
    return row["key"], place, None if row["value"] is None else plain(row["value"])


def _typed(row: Mapping[str, Any]) -> tuple[str | None, Any, Any]:
    values = {name: value for name, value in row.items() if name != "_timestamp"}
    place = (row.get("_timestamp") or _NEVER, [(value is not None, value or 0) for value in values.values()])
    key = row["id"]
    return None if key is None else key_text(int(key) if isinstance(key, Decimal) else key), place, plain(values)


def key_text(key: Any) -> str:
    """A key as canonical JSON text."""
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def pair(row: Mapping[str, Any]) -> Any:
    """The left and right value of a row of a channel or result."""
    return plain({"left": _parsed(row["left"]), "right": _parsed(row["right"])})


def plain(value: Any) -> Any:
    """A value as JSON has it, without null fields, so that rows in JSON and rows with columns can be compared."""
    return _plain(_parsed(value))


def canonical(value: Any) -> str:
    """A value as text. Equal values are equal text; 1, 1.0 and true are not equal."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _parsed(text: Any) -> Any:
    return json.loads(text, parse_float=Decimal) if isinstance(text, str) else text


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Decimal):  # JSON has a decimal without a fraction as an integer
        return str(value) if value.as_tuple().exponent else int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return value.isoformat()
    return value


def texts(values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Values as canonical text."""
    return {key: canonical(value) for key, value in dict(values).items()}
