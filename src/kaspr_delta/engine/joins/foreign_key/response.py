"""Response, back on the left side: the result of a left row and the answer to its subscription.

The counterpart of Kafka Streams' ``ResponseJoinProcessorSupplier``. There an answer whose hash is not that of the
current left row is dropped, because a newer one is under way. Here all left rows, hashes and right rows of a batch are
read at pinned versions, and a left row whose hash differs was sent again in the same batch (see ``send``): an old left
row never meets a new right one.
"""

from __future__ import annotations

import narwhals as nw

from kaspr_delta.engine.joins.results import with_result
from kaspr_delta.engine.rows.expressions import exists, first_of, later
from kaspr_delta.engine.rows.rows import Rows
from kaspr_delta.plan.definition.joins import JoinType


def respond(answered: Rows, join_type: JoinType, selection: str = "") -> Rows:
    """Return answered subscriptions with their current results: columns result and result_timestamp are added.

    The time of a result or a tombstone is the later one of both rows; if only the right row changed, it is the right
    row's, as in Kafka Streams. A deleted row has the time of the commit.
    """
    # A row that SQL wrote without a time has the time of the commit that touched it.
    of_both = later(nw.coalesce("left_timestamp", "changed_at"), nw.col("right_timestamp"))
    of_right = nw.coalesce("right_timestamp", "changed_at")
    timestamp = first_of(
        (~exists("left"), nw.col("changed_at")),
        (nw.col("triggered_by_right") & ~nw.col("stale"), of_right),
        otherwise=of_both,
    )
    return with_result(answered, join_type, selection).with_columns(result_timestamp=timestamp)
