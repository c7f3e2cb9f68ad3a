"""Hop 4, back on the left side: what a subscription's answer makes of the left row.

The counterpart of Kafka Streams' ``ResponseJoinProcessorSupplier``. There an answer whose hash is not that of the
current left row is dropped, for a newer one is under way. Here left rows, hashes and right rows of a batch are read at
pinned versions, and a row whose hash differs was sent again in the same batch (see ``send``): never an old left row
with a new right one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kaspr_delta.plan.definition.joins import JoinType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def respond(answered: DataFrame, join_type: JoinType, selection: str = "") -> DataFrame:
    """Answered subscriptions with the result that holds now, or none: columns shown, result, result_timestamp.

    ``result`` tells results apart without comparing them: the hashes of both rows, and what is selected of them
    (``selection``, a fingerprint); NULL where nothing holds. A result
    has the greater time of its two rows, or, where the right row alone brought it about, that one's, as in Kafka
    Streams. So has what says that nothing holds any more; a row that was deleted has the time of the commit.
    """
    shown = F.col("left").isNotNull()
    if join_type == "inner":
        shown = shown & F.col("right").isNotNull()
    selected = [F.lit(selection)] if selection else []
    fingerprint = F.concat_ws(":", "left_hash", F.coalesce("right_hash", F.lit("")), *selected)
    # A row that SQL wrote without a time has that of the commit that touched it.
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
