"""Delta's transaction identifiers, which make an append happen once however often it is tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transaction:
    """Delta's transaction identifier: an append with one that the table already has is skipped."""

    app_id: str
    version: int
