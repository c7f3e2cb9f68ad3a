"""Hop 4, back on the left side: the result of a left row and the answer to its subscription.

The counterpart of Kafka Streams' ``ResponseJoinProcessorSupplier``. There an answer whose hash is not that of the
current left row is dropped, because a newer one is under way. Here all left rows, hashes and right rows of a batch are
read at pinned versions, and a left row whose hash differs was sent again in the same batch (see ``send``): an old left
row never meets a new right one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.plan.definition.joins import JoinType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def respond(answered: DataFrame, join_type: JoinType, selection: str = "") -> DataFrame:
    """Return answered subscriptions with their current results: columns shown, result, result_timestamp are added.

    ``result`` identifies a result, so that rows need not be compared: the hashes of both rows and ``selection``, the
    fingerprint of the select; NULL without a result. The time of a result or a tombstone is the later one of both rows;
    if only the right row changed, it is the right row's, as in Kafka Streams. A deleted row has the time of the commit.
    """
    shown = F.col("left").isNotNull()
    if join_type == "inner":
        shown = shown & F.col("right").isNotNull()
    selected = [F.lit(selection)] if selection else []
    fingerprint = F.concat_ws(":", "left_hash", F.coalesce("right_hash", F.lit("")), *selected)
    # A row that SQL wrote without a time has the time of the commit that touched it.
    of_both = F.greatest(F.coalesce("left_timestamp", "changed_at"), "right_timestamp")
    of_right = F.coalesce("right_timestamp", "changed_at")
    timestamp = (
        F.when(F.col("left").isNull(), F.col("changed_at"))
        .when(F.col("woken") & ~F.col("stale"), of_right)
        .otherwise(of_both)
    )
    return (
        answered.withColumn("shown", shown)
        .withColumn("result", F.when(F.col("shown"), fingerprint))
        .withColumn("result_timestamp", timestamp)
    )
