"""New batches in the progress table, found by batch number: the clocks of machines differ and jump."""

from __future__ import annotations

from collections.abc import Mapping

LastBatches = Mapping[str, tuple[str, int]]
"""By ``kind/name``, checkpoint and number of the last known batch. Later batches of a resource compare greater."""


def after(known: LastBatches) -> tuple[str, dict[str, str]]:
    """The SQL condition for progress rows of later batches than the known ones, and its values.

    >>> after({"join/j": ("c2", 7)})[0]
    'NOT (resource = {r0} AND (checkpoint < {c0} OR checkpoint = {c0} AND batch <= 7))'
    """
    conditions, values = [], dict[str, str]()
    for n, (resource, (checkpoint, batch)) in enumerate(known.items()):
        earlier = f"checkpoint < {{c{n}}} OR checkpoint = {{c{n}}} AND batch <= {batch}"
        conditions.append(f"NOT (resource = {{r{n}}} AND ({earlier}))")
        values |= {f"r{n}": resource, f"c{n}": checkpoint}
    return " AND ".join(conditions) or "true", values


def last_of(folded: Mapping[str, Mapping[str, int]]) -> LastBatches:
    """The last batch of each resource (see ``engine.batch.progress.folded_batches``)."""
    return {resource: max(batches.items()) for resource, batches in folded.items()}
