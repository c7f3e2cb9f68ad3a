"""The endpoint that a topic is bound to, as ingest and export use it."""

from __future__ import annotations

from typing import TypeAlias

from kaspr_delta.engine.binding.files import Files
from kaspr_delta.engine.binding.kafka import Kafka
from kaspr_delta.plan.definition.bindings import KafkaPlan
from kaspr_delta.plan.definition.resources import TopicPlan
from kaspr_delta.storage.tables import Tables

Endpoint: TypeAlias = Kafka | Files
"""A topic on Kafka, or a folder of files.

``stream``: all its rows, as a stream. ``records``: rows of that stream as records or dead letters, with the columns of
an ingest's log but ``seq``, and those of ``order``, which give the order of the records in the endpoint; the rows of a
large batch are in order. ``write``: writes rows of a topic, sorted within each partition, under the name of their
batch, which may be repeated.
"""


def endpoint_of(delta: Tables, topic: TopicPlan) -> Endpoint:
    """The endpoint of a bound topic."""
    endpoint, on_databricks = topic.bound.endpoint, delta.namespace.on_databricks
    if isinstance(endpoint, KafkaPlan):
        return Kafka(endpoint, topic.name, on_databricks=on_databricks)
    return Files(endpoint, topic.name, topic.partitions, on_databricks=on_databricks)
