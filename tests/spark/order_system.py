"""The bundle ``order-system``, without the agents that fill its tables: two resources instead of four."""

from __future__ import annotations

from pathlib import Path

_BUNDLE = Path(__file__).parents[2] / "bundles" / "order-system"


def join_and_reader(folder: Path) -> Path:
    """Write a file with the tables, their join and the agent that reads its channel. Returns the file."""
    file = folder / "join-and-reader.yaml"
    parts = [(_BUNDLE / f"{name}.yaml").read_text() for name in ("app", "tables", "join", "agents")]
    file.write_text("---\n".join(parts))
    return file
