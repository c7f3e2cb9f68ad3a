"""Calls that serverless compute refuses fail in tests on Spark Connect, before any request: no server is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.serverless import SETTINGS_ALLOWED, apply_serverless_restrictions

pytest.importorskip("grpc")
UNUSED_ADDRESS = "sc://127.0.0.1:1"
PERSIST = "NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE"
GLOBAL = "NOT_SUPPORTED_WITH_SERVERLESS] GLOBAL TEMPORARY VIEW"
VIEW = r"TABLE_OR_VIEW_NOT_FOUND\] The temporary view v"
TRIGGER = "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED"
SETTING = r"CONFIG_NOT_AVAILABLE\] Configuration spark.sql.adaptive.enabled"


class SentError(Exception):
    """A request would have been sent to the server."""


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session with the limits of serverless compute. Its requests raise SentError."""
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.session import SparkSession

    def send(*_: Any, **__: Any) -> Any:
        raise SentError

    for name in ("config", "_analyze", "_execute", "_execute_and_fetch_as_iterator"):
        monkeypatch.setattr(SparkConnectClient, name, send)
    apply_serverless_restrictions()
    monkeypatch.setattr(
        SparkConnectClient, "_get_plan_compression_threshold_and_algorithm", lambda _: (-1, "NONE"), raising=False
    )
    client: Any = SparkConnectClient(UNUSED_ADDRESS)
    strict: Any = SparkSession.__new__(SparkSession)
    strict._client, strict._session_id = client, client._session_id
    yield strict
    client._channel.close()


def rows(session: Any) -> Any:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import Range

    return DataFrame(Range(0, 3, 1), session)


def stream(session: Any, **trigger: Any) -> Any:
    writer = rows(session).writeStream.format("noop")
    return (writer.trigger(**trigger) if trigger else writer).start()


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (lambda session: session.conf.set("spark.sql.adaptive.enabled", "true"), SETTING),
        (lambda session: session.conf.unset("spark.sql.adaptive.enabled"), SETTING),
        (lambda session: session.sql("SET spark.sql.adaptive.enabled = true"), SETTING),
        (lambda session: session.sql("reset spark.sql.adaptive.enabled"), SETTING),
        (lambda session: rows(session).cache(), PERSIST),
        (lambda session: rows(session).persist(), PERSIST),
        (lambda session: rows(session).unpersist(), "UNPERSIST TABLE"),
        (lambda session: session.sql("CACHE TABLE t"), "CACHE TABLE"),
        (lambda session: session.sql("CACHE LAZY TABLE t\nAS SELECT 1"), "CACHE TABLE AS SELECT"),
        (lambda session: session.sql("CLEAR CACHE"), "CLEAR CACHE"),
        (lambda session: session.catalog.cacheTable("t"), "CACHE TABLE"),
        (lambda session: session.catalog.clearCache(), "CLEAR CACHE"),
        (lambda session: rows(session).localCheckpoint(), "CHECKPOINT"),
        (lambda session: rows(session).checkpoint(), "CHECKPOINT"),
        (lambda session: rows(session).createOrReplaceGlobalTempView("v"), GLOBAL),
        (lambda session: session.sql("CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT 1"), GLOBAL),
        (lambda session: rows(session).createOrReplaceTempView("v"), VIEW),
        (lambda session: session.sql("CREATE TEMP VIEW v AS SELECT 1"), VIEW),
        (stream, TRIGGER),
        (lambda session: stream(session, processingTime="1 second"), TRIGGER),
        (lambda session: stream(session, once=True), TRIGGER),
        (lambda session: stream(session, continuous="1 second"), TRIGGER),
    ],
)
def test_calls_that_serverless_refuses_raise_its_error(
    session: Any, call: Callable[[Any], object], refusal: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=refusal):
        call(session)


@pytest.mark.parametrize(
    "call",
    [
        *(lambda session, name=name: session.conf.set(name, "1") for name in sorted(SETTINGS_ALLOWED)),
        lambda session: session.sql("SET TIME ZONE 'UTC'"),
        lambda session: session.sql("SELECT 1"),
        lambda session: rows(session).collect(),
        lambda session: session.sql("CREATE OR REPLACE VIEW v AS SELECT 1"),
        lambda session: stream(session, availableNow=True),
    ],
)
def test_calls_that_serverless_allows_are_sent(session: Any, call: Callable[[Any], object]) -> None:
    with pytest.raises(SentError):
        call(session)
