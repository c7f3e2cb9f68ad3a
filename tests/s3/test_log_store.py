"""The classes for Spark in a bucket: their jar, and how they write and read files."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from kaspr_delta.storage.stores import store_of
from tests.s3.counting import Proxy
from tests.s3.log_store import JAR, JAVAC, class_path, compiled

TRY = Path(__file__).with_name("TryConditionalFiles.java")
NAMES = ("offsets/0", "_delta_log/00000000000000000000.json")
# Of the packages for a bucket, which Spark downloads when it is first used.
OF_BUCKETS = ("hadoop-aws", "awssdk", "reactive-streams", "wildfly-openssl", "analyticsaccelerator")


@pytest.mark.slow
@pytest.mark.skipif(JAVAC is None, reason="no compiler of Java 17")
def test_the_jar_of_the_log_store_is_made_of_its_sources() -> None:
    version = subprocess.run([str(JAVAC), "-version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    if not version.startswith("javac 17."):
        pytest.skip("another compiler makes another class file")
    with zipfile.ZipFile(JAR) as jar:
        assert {name: jar.read(name) for name in jar.namelist()} == compiled()


@pytest.mark.slow
@pytest.mark.skipif(JAVAC is None, reason="no compiler of Java 17")
def test_files_are_created_once_and_a_replaced_commit_is_read_anew(
    endpoint: str, warehouse: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jars = [jar for jar in Path.home().glob(".ivy2*/jars/*.jar") if any(name in jar.name for name in OF_BUCKETS)]
    if not jars:
        pytest.skip("no packages for buckets: Spark downloads them when it first runs in one")
    folder = warehouse.removeprefix("s3://bucket/")
    path = os.pathsep.join(map(str, [JAR, *class_path(), *jars, tmp_path]))
    subprocess.run([str(JAVAC), "-cp", path, "-d", str(tmp_path), str(TRY)], check=True)  # noqa: S603
    with Proxy(endpoint).serving() as (address, proxy), monkeypatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", address)
        java = ["java", "-cp", path, TRY.stem, store_of(warehouse).for_spark(warehouse)]
        printed = subprocess.run(java, capture_output=True, text=True, check=True).stdout  # noqa: S603
    assert [line.removeprefix("> ") for line in printed.splitlines() if line.startswith("> ")] == [
        "there: false",
        "created: true",
        "there, and the folder: true true",
        "created again by the same stream: true",
        "created over another: false",
        "cancelled: false false",
        "files: 1",
        "content: one",
        "committed again: false",
        "listed: 00000000000000000000.json",
        "read: [one]",
        "read of another table: [of another table, that took its place]",
        "read of none: missing",
    ]
    of_file = {name: [one.method for one in proxy.requests if one.key == f"{folder}/{name}"] for name in NAMES}
    assert of_file["offsets/0"][:3] == ["HEAD", "PUT", "HEAD"]
    assert of_file["_delta_log/00000000000000000000.json"][0] == "PUT"
    assert not any(request.key.startswith(f"{folder}/offsets/0/") for request in proxy.requests)  # a LIST
