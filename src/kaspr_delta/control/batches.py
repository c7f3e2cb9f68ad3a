"""New batches in the progress table, found by batch number: the clocks of machines differ and jump."""

from __future__ import annotations

from collections.abc import Mapping

from kaspr_delta.storage.native.sql_text import literal

LastBatches = Mapping[str, tuple[str, int]]
"""By ``kind/name``, checkpoint and number of the last known batch. Later batches of a resource compare greater."""


def after(known: LastBatches) -> str:
    """The SQL condition for progress rows of later batches than the known ones.

    >>> after({"join/j": ("c2", 7)})
    "NOT (resource = 'join/j' AND (checkpoint < 'c2' OR checkpoint = 'c2' AND batch <= 7))"
    """
    conditions = (
        f"NOT (resource = {literal(resource)} AND (checkpoint < {literal(checkpoint)}"
        f" OR checkpoint = {literal(checkpoint)} AND batch <= {number}))"
        for resource, (checkpoint, number) in known.items()
    )
    return " AND ".join(conditions) or "true"


def last_of(folded: Mapping[str, Mapping[str, int]]) -> LastBatches:
    """The last batch of each resource (see ``engine.batch.progress.folded_batches``)."""
    return {resource: max(batches.items()) for resource, batches in folded.items()}
