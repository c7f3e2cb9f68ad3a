"""A warehouse is copied to a bucket and back, also by processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kaspr_delta.storage.copying.contents import Contents
from kaspr_delta.storage.copying.mark import MARK
from kaspr_delta.storage.folders import Folder
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import folder_tables
from tests.s3.counting import Proxy, Request
from tests.s3.test_order_enrichment import BUNDLE, generated, kaspr_delta, output, program

pytestmark = pytest.mark.further

RECORDS = 40
# Seconds that a request takes.
SLOW = 0.02


class Slow(Proxy):
    """Each request takes a while, so that a copy can be killed in its middle."""

    def loses(self, request: Request) -> bool:  # noqa: ARG002
        time.sleep(SLOW)
        return False


@pytest.fixture
def slow(endpoint: str) -> Iterator[tuple[str, Slow]]:
    with Slow(endpoint).serving() as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path, endpoint: str) -> str:  # noqa: ARG001
    """A warehouse on this machine with records in several commits, and the file of a stream."""
    kaspr_delta(str(tmp_path / "wh"), "apply", "-f", str(BUNDLE))
    for line in generated("orders", "--count", str(RECORDS), "--products", "4").splitlines()[:RECORDS:8]:
        kaspr_delta(str(tmp_path / "wh"), "produce", "raw-orders", given=line)
    stream = tmp_path / "wh" / "order_system" / "_kaspr" / "checkpoints" / "agent-ingest-orders" / "c1" / "offsets"
    stream.mkdir(parents=True)
    (stream / "0").write_bytes(os.urandom(20 << 20))
    return str(tmp_path / "wh")


def copying(source: str, target: str) -> list[str]:
    return [sys.executable, "-m", "kaspr_delta", "copy", source, target]


def consumed(warehouse: str) -> list[str]:
    return kaspr_delta(warehouse, "consume", "raw-orders").splitlines()


def assert_same(one: Folder, other: Folder) -> None:
    files = [Contents.of(folder / "order_system").files for folder in (one, other)]
    assert {name: file.size for name, file in files[0].items()} == {name: file.size for name, file in files[1].items()}
    here, there = one / "order_system", other / "order_system"
    assert all(b"".join(here.parts(name)) == b"".join(there.parts(name)) for name in files[0])


def test_a_warehouse_goes_to_a_bucket_to_another_one_and_back(folder: str, warehouse: str, tmp_path: Path) -> None:
    back, places = str(tmp_path / "back"), [folder, f"{warehouse}/first", f"{warehouse}/second"]
    for source, target in zip(places, [*places[1:], back], strict=True):
        out = output(copying(source, target))
        assert "checked: each file and its size" in out
    assert_same(Warehouse(folder).root, Warehouse(back).root)
    records = consumed(folder)
    assert len(records) == RECORDS // 8
    for place in (*places[1:], back):
        assert consumed(place) == records
    kaspr_delta(places[1], "produce", "raw-orders", given='{"key": "new", "value": {}}')
    assert json.loads(consumed(places[1])[-1])["key"] == "new"
    assert consumed(places[2]) == consumed(back) == records


def _has_begun(requests: list[Request], commits: int) -> bool:
    """Whether files of data and so many commits were written."""
    data = any(request.method == "PUT" and request.key.endswith(".parquet") for request in requests)
    return data and sum(request.is_commit for request in requests) >= commits


@pytest.mark.parametrize(
    "commits", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(8, marks=pytest.mark.slow)]
)
def test_a_copy_that_is_killed_is_refused_and_goes_on(
    folder: str, warehouse: str, slow: tuple[str, Slow], commits: int
) -> None:
    address, proxy = slow
    command = copying(folder, warehouse)
    root = Warehouse(warehouse).root
    with subprocess.Popen(  # noqa: S603
        command, env={**os.environ, "AWS_ENDPOINT_URL": address}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as process:
        while not _has_begun(proxy.requests, commits):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert root.has_file(MARK)
    refused = subprocess.run(program(warehouse, "consume", "raw-orders"), capture_output=True, text=True, check=False)  # noqa: S603
    assert refused.returncode == 1
    assert f"{warehouse} is an unfinished copy: go on with" in refused.stderr
    assert "Traceback" not in refused.stderr
    here, there = (folder_tables(Warehouse(place).namespace("order_system")) for place in (folder, warehouse))
    assert here is not None
    assert there is not None
    for table in Contents.of(Warehouse(warehouse).root / "order_system").newest:  # each version that is there is whole
        version = there.open(table).version()
        assert there.count(table, version) == here.count(table, version)
        assert there.is_whole(table, version)
    output(copying(folder, warehouse))
    assert_same(Warehouse(folder).root, root)
    assert not root.has_file(MARK)
    assert consumed(warehouse) == consumed(folder)
