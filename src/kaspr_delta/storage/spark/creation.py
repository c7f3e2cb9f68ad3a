"""The statement that creates a Delta table."""

from __future__ import annotations

from collections.abc import Mapping

from kaspr_delta.storage.spark.sql_text import literal


def creation(identifier: str, columns: str, properties: Mapping[str, str], location: str | None) -> str:
    """CREATE TABLE unless it exists; without a location the catalog chooses one."""
    clause = f" LOCATION {literal(location)}" if location is not None else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {identifier} ({columns}) USING DELTA{clause} TBLPROPERTIES ({listed(properties)})"
    )


def listed(properties: Mapping[str, str]) -> str:
    """Table properties as SQL lists them."""
    return ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
