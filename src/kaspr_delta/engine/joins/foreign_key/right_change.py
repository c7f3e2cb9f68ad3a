"""Right change, on the right side: every subscriber of a touched right key.

The counterpart of Kafka Streams' ``ForeignTableJoinProcessorSupplier``: there a prefix scan over combined keys, here a
join on the foreign key, which is exact: ``P1`` never triggers the subscribers of ``P10``.
"""

from __future__ import annotations

import narwhals as nw

from kaspr_delta.engine.rows.rows import Rows


def triggered_by_right(subscriptions: Rows, right_keys: Rows, left_keys: Rows) -> Rows:
    """Subscribers of the right keys (columns key, changed_at), except left keys that were touched themselves.

    Columns key, changed_at, and those of ``subscriptions`` except fk.
    """
    touched = right_keys.select(nw.col("key").alias("fk"), "changed_at")
    rest = [name for name in subscriptions.columns if name not in {"key", "fk"}]
    subscribers = subscriptions.join(touched, "fk", "inner").select("key", "changed_at", *rest)
    return subscribers.join(left_keys.select("key"), "key", "left_anti")
