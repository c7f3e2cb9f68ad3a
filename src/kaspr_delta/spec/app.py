"""KasprApp: the application that tables, joins, agents, web views and tasks belong to."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from kaspr_delta.spec.base import Boolean, NaturalNumber, Number, OpenSpec, PositiveInteger, Text, optional
from kaspr_delta.spec.bindings import TopicBinding
from kaspr_delta.spec.durations import PositiveDuration
from kaspr_delta.spec.kubernetes import Authentication, Probe, PythonPackages, Resources, Storage, Template, Tls
from kaspr_delta.spec.resource import OnChange, Resource, ResourceSpec, TopicSerializer

OnGap: TypeAlias = Literal["fail", "rebuild"]
"""The reaction to changes that are gone before they were read."""


class AppConfig(OpenSpec):
    """Settings of the application. Those not listed are kept as they are.

    ``eventTimeout``, ``feedRetention``, ``onGap`` and ``onChange`` are not Kaspr's.
    """

    event_timeout: PositiveDuration | None = optional(
        "how long an event may take before it is a dead letter; 5m unless given"
    )
    feed_retention: PositiveDuration | None = optional(
        "how long change feeds keep changes, also after OPTIMIZE and VACUUM; 30d unless given"
    )
    on_gap: OnGap | None = optional(
        "the reaction of joins of tables, and of tables made from tables, when unread changes are gone:"
        " stop (fail, unless given), or make the state anew from the current tables (rebuild)"
    )
    on_change: OnChange | None = optional(
        "the reaction of joins of tables, and of tables made from tables, to a definition that has changed: stop until"
        " `kaspr-delta rebuild` (refuse, unless given), make the state anew in the next run (rebuild), or stop and show"
        " what a rebuild would change (side-by-side)"
    )
    topic_replication_factor: PositiveInteger | None = None
    topic_partitions: PositiveInteger | None = optional("how many partitions topics and tables have; 3 unless given")
    topic_allow_declare: Boolean | None = None
    key_serializer: TopicSerializer | None = optional("how keys of topics are written; json unless given")
    value_serializer: TopicSerializer | None = optional("how values of topics are written; json unless given")
    table_dir: str | None = None
    web_port: PositiveInteger | None = None
    web_base_path: str | None = None
    web_metrics_base_path: str | None = None
    store_rocksdb_write_buffer_size: NaturalNumber | None = None
    store_rocksdb_target_file_size_base: NaturalNumber | None = None
    store_rocksdb_max_write_buffer_number: NaturalNumber | None = None
    store_rocksdb_bloom_filter_size: NaturalNumber | None = None
    store_rocksdb_block_cache_size: NaturalNumber | None = None
    store_rocksdb_block_cache_compressed_size: NaturalNumber | None = None
    store_rocksdb_set_cache_index_and_filter_blocks: Boolean | None = None
    scheduler_enabled: Boolean | None = None
    scheduler_cron_enabled: Boolean | None = None
    scheduler_topic_partitions: PositiveInteger | None = None
    scheduler_debug_stats_enabled: Boolean | None = None
    scheduler_checkpoint_save_interval_seconds: Number | None = None
    scheduler_dispatcher_default_checkpoint_lookback_days: Number | None = None
    scheduler_dispatcher_checkpoint_interval: Number | None = None
    scheduler_janitor_checkpoint_interval: Number | None = None
    scheduler_janitor_clean_interval_seconds: Number | None = None
    scheduler_janitor_highwater_offset_seconds: Number | None = None
    scheduler_cron_tick_interval_seconds: Number | None = None
    scheduler_cron_tick_buffer_seconds: Number | None = None
    scheduler_cron_min_interval_seconds: Number | None = None


class AppSpec(ResourceSpec):
    """The fields of an application. Kubernetes' are kept, and have no effect here.

    Kafka's count for topics that are bound to it: ``topics``, which is not Kaspr's, says which ones.
    """

    version: str | None = None
    image: str | None = None
    replicas: NaturalNumber | None = None
    bootstrap_servers: str | None = optional("Kafka, for topics that are bound to it")
    tls: Tls | None = optional("how Kafka's certificates are checked")
    authentication: Authentication | None = optional("how to log in to Kafka")
    config: AppConfig = Field(default=AppConfig(), description="settings of the application")
    resources: Resources | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    storage: Storage | None = None
    python_packages: PythonPackages | None = optional("the packages that the functions import")
    template: Template | None = None
    topics: dict[Text, TopicBinding] = Field(
        default_factory=dict, description="topics that live on Kafka or in files, by name"
    )


class KasprApp(Resource):
    """An application manifest."""

    kind: Literal["KasprApp"]
    spec: AppSpec = AppSpec()
