"""How Spark, delta-rs and obstore reach a bucket."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kaspr_delta.errors import SetupError, UsageError
from kaspr_delta.storage.namespace import BucketNamespace, Warehouse
from kaspr_delta.storage.opening import open_tables
from kaspr_delta.storage.stores import LOG_STORE, store_of

S3 = store_of("s3://bucket/wh")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def test_on_aws_only_the_log_store_is_set() -> None:
    assert LOG_STORE.is_file()
    assert S3.settings() == {
        "spark.delta.logStore.s3a.impl": "io.kaspr.delta.ConditionalLogStore",
        "spark.jars.excludes": "software.amazon.awssdk:bundle",
        "spark.delta.logStore.s3.impl": "io.kaspr.delta.ConditionalLogStore",
        "spark.sql.streaming.checkpointFileManagerClass": "io.kaspr.delta.ConditionalCheckpoint",
        "spark.hadoop.fs.s3a.etag.checksum.enabled": "true",
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }
    assert (S3.options(), S3.client()) == (None, {})


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_a_server_of_ones_own_is_reached_by_paths_and_no_setting_has_a_credential(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://here:9000")
    monkeypatch.setenv("AWS_REGION", "eu-1")
    settings = S3.settings()
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://here:9000"
    assert settings["spark.hadoop.fs.s3a.endpoint.region"] == "eu-1"
    assert settings["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert S3.options() == {"AWS_ALLOW_HTTP": "true"}
    assert S3.client() == {"client_options": {"allow_http": True}}
    assert not any("secret" in value for value in settings.values())


def test_packages_are_those_of_the_hadoop_in_spark() -> None:
    assert S3.packages("3.5.0")[0] == "org.apache.hadoop:hadoop-aws:3.5.0"
    with pytest.raises(SetupError, match=r"s3:// needs a Spark with Hadoop 3\.5\.0, not 3\.4\.2"):
        S3.packages("3.4.2")


@pytest.mark.parametrize("text", ["s3://bucket/a/wh", "s3a://bucket/a/wh/"])
def test_a_bucket_has_one_place_under_both_schemes(text: str) -> None:
    warehouse = Warehouse(text)
    assert (warehouse.folder, warehouse.is_here, warehouse.is_unity) == ("s3://bucket/a/wh", False, False)
    namespace = warehouse.namespace("shop")
    assert isinstance(namespace, BucketNamespace)
    assert str(namespace.folder("orders")) == "s3://bucket/a/wh/shop/orders"
    assert namespace.declared_location("orders") == "s3a://bucket/a/wh/shop/orders"
    assert namespace.checkpoints.for_spark == "s3a://bucket/a/wh/shop/_kaspr/checkpoints"


@pytest.mark.parametrize(
    "text", ["s3://", "s3:/bucket/wh", "s3://bucket/a b", "s3://bucket/wh?x=1", "s3://key:secret@bucket"]
)
def test_another_form_of_a_bucket_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a warehouse in a bucket is named s3://BUCKET/PATH") as refused:
        Warehouse(text)
    assert "secret" not in str(refused.value)


def test_a_session_without_the_log_store_is_refused() -> None:
    """With Delta's own log store two processes replace each other's commits."""
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _name, default: default))
    with pytest.raises(SetupError, match=r"Set spark\.delta\.logStore\.s3a\.impl=io\.kaspr\.delta\.Cond"):
        open_tables(Warehouse("s3://bucket/wh").namespace("shop")).create_schema(cast("Any", session))
