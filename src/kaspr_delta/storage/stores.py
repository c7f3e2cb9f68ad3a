"""Stores of objects that hold warehouses: how Spark, delta-rs and obstore reach a bucket.

Credentials, region and endpoint come from the environment (``AWS_ACCESS_KEY_ID``, ``AWS_REGION``, ``AWS_ENDPOINT_URL``
and so on) or from the role of the machine. Spark, delta-rs and obstore find credentials by themselves: no setting has
them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from kaspr_delta.errors import SetupError

LOG_STORE = Path(__file__).parent / "spark" / "log_store" / "conditional-log-store.jar"
"""The jar of the log store for Spark, with its source beside it."""
_CHECKPOINT_FILES = "io.kaspr.delta.ConditionalCheckpoint"  # of the same jar
# The version of the SDK for Java that hadoop-aws is made with, by the version of Hadoop in pyspark.
_SDK_OF = {"3.5.0": "2.35.4"}
# The parts of the SDK that hadoop-aws uses: all of it, the ``bundle``, is 686 MB.
_SDK_PARTS = ("s3", "s3-transfer-manager", "sts")

# The tries of a request, beside the first one, of somebody who does not wait.
_FEW_RETRIES = 3


@dataclass(frozen=True, slots=True)
class Store:
    """A kind of store: the scheme of its URIs, and that of Spark for the same.

    On S3 a commit is a conditional PUT: by delta-rs always, by Spark with the log store of this package, which
    ``log_store`` sets.
    """

    scheme: str
    spark_scheme: str
    log_store: tuple[str, str]

    def for_spark(self, uri: str) -> str:
        """A URI of the store as Spark names it."""
        return f"{self.spark_scheme}://{uri.partition('://')[2]}"

    def options(self) -> dict[str, str] | None:
        """The options of delta-rs beside the environment."""
        return {"AWS_ALLOW_HTTP": "true"} if _is_without_tls() else None

    def client(self, seconds: int = 0) -> Mapping[str, Any]:
        """The options of obstore beside the environment. A request is given up after so many seconds, if not 0."""
        options: dict[str, Any] = {"allow_http": True} if _is_without_tls() else {}
        if not seconds:
            return {"client_options": options} if options else {}
        limit = timedelta(seconds=seconds)
        pauses = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2}
        return {
            "client_options": {**options, "timeout": limit, "connect_timeout": limit},
            "retry_config": {"max_retries": _FEW_RETRIES, "retry_timeout": limit, "backoff": pauses},
        }

    def packages(self, hadoop: str) -> list[str]:
        """The packages with which Spark reaches the store. Raises SetupError for a version of Hadoop never tried."""
        sdk = _SDK_OF.get(hadoop)
        if sdk is None:
            needed = ", ".join(_SDK_OF)
            raise SetupError(f"{self.scheme}:// needs a Spark with Hadoop {needed}, not {hadoop}: Spark 4.2")
        parts = (f"software.amazon.awssdk:{part}:{sdk}" for part in _SDK_PARTS)
        return [f"org.apache.hadoop:hadoop-aws:{hadoop}", *parts]

    def settings(self) -> dict[str, str]:
        """The settings of a Spark that this package starts, beside the packages and the jar of the log store."""
        name, value = self.log_store
        found = {
            name: value,
            "spark.jars.excludes": "software.amazon.awssdk:bundle",
            "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
            f"spark.hadoop.fs.{self.spark_scheme}.etag.checksum.enabled": "true",  # these files are asked for by it
            # For tables and files of others that are named as people name them.
            name.replace(self.spark_scheme, self.scheme): value,
            f"spark.hadoop.fs.{self.scheme}.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        }
        if own := endpoint():  # its buckets are in the path, not in the name of the host
            found |= {"spark.hadoop.fs.s3a.endpoint": own, "spark.hadoop.fs.s3a.path.style.access": "true"}
        if region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
            found["spark.hadoop.fs.s3a.endpoint.region"] = region
        return found


_S3 = Store("s3", "s3a", ("spark.delta.logStore.s3a.impl", "io.kaspr.delta.ConditionalLogStore"))
STORES: Mapping[str, Store] = {"s3": _S3, "s3a": _S3}
"""The known stores, by the schemes of their URIs."""


def endpoint() -> str:
    """The address of a server of one's own; empty for AWS."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _is_without_tls() -> bool:
    return endpoint().startswith("http://")


def store_of(uri: str) -> Store:
    """The store of a URI whose scheme is known."""
    return STORES[uri.partition(":")[0]]
