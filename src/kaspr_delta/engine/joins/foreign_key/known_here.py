"""The same as ``known`` if keys, subscriptions and rows are on the driver: Arrow joins them, without a Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kaspr_delta.engine.rows.live_rows import fingerprints, live_here

if TYPE_CHECKING:
    from kaspr_delta.plan.definition.resources import TablePlan


def known_here(keys: pa.Table, subscriptions: pa.Table, stored: pa.Table, left: TablePlan) -> pa.Table | None:
    """The input of hop 1: columns as in ``known``; None if only Spark can find the live rows.

    ``keys``: touched keys, columns side, key, changed_at, reason. ``subscriptions``: columns key, fk, left_hash,
    emitted, at most one per left key. ``stored``: rows as the left table stores them.
    """
    live = live_here(left, stored)
    if live is None:
        return None
    subscribed = _subscribed(keys, subscriptions)
    rows = pa.table(
        {
            "left": live["value"],
            "left_hash": fingerprints(live["value"]),
            "left_timestamp": live["timestamp"],
            "copies": live["copies"],
        }
    )
    theirs = _found(subscribed["key"], live["key"], rows)
    return pa.table(dict(zip(subscribed.column_names, subscribed.columns, strict=True)) | theirs)


def _subscribed(keys: pa.Table, subscriptions: pa.Table) -> pa.Table:
    """Left keys that were touched, or woken by the right key they subscribe to, with their subscriptions."""
    fit = keys.filter(pc.is_null(keys["reason"]))
    left, right = (fit.filter(pc.equal(fit["side"], side)) for side in ("left", "right"))
    were = pa.table(
        {
            "old_fk": subscriptions["fk"],
            "old_hash": subscriptions["left_hash"],
            "emitted": subscriptions["emitted"],
        }
    )
    touched = _rows(left["key"], left["changed_at"], _found(left["key"], subscriptions["key"], were), woken=False)
    changed_at = _found(subscriptions["fk"], right["key"], right.select(["changed_at"]))["changed_at"]
    wakes = pc.and_(pc.is_valid(changed_at), pc.invert(pc.is_in(subscriptions["key"], value_set=left["key"])))
    subscribers = were.append_column("key", subscriptions["key"]).append_column("changed_at", changed_at).filter(wakes)
    also = {name: subscribers[name] for name in were.column_names}
    woken = _rows(subscribers["key"], subscribers["changed_at"], also, woken=True)
    return pa.concat_tables([touched, woken])


def _rows(
    key: pa.ChunkedArray, changed_at: pa.ChunkedArray, were: dict[str, pa.ChunkedArray], *, woken: bool
) -> pa.Table:
    return pa.table({"key": key, "changed_at": changed_at, "woken": pa.repeat(woken, len(key)), **were})


def _found(keys: pa.ChunkedArray, among: pa.ChunkedArray, rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    """For each key the row at its index in ``among``, else NULL."""
    places = pc.index_in(keys, value_set=among)
    return {name: rows[name].take(places) for name in rows.column_names}
