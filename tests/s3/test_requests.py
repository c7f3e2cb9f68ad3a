"""The number of requests, by a counting server before the other one.

What is counted runs in a process of its own: delta-rs may hold this one's interpreter while it waits for the server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from kaspr_delta.storage import folders
from kaspr_delta.storage.arrow_types import arrow_schema
from kaspr_delta.storage.folders import BucketFolder
from kaspr_delta.storage.layout import BUCKET_CHECKPOINT_INTERVAL, PROGRESS, RESULT
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.attempts import Attempts
from kaspr_delta.storage.native.delta_rs import DeltaRs, append_to
from kaspr_delta.storage.native.kept import OpenTable
from kaspr_delta.storage.opening import folder_tables
from kaspr_delta.storage.statistics import Statistics
from kaspr_delta.storage.tables import Transaction
from tests.conftest import ROOT
from tests.s3.counting import Proxy, Request, by_caller
from tests.s3.test_order_enrichment import BUNDLE, generated, kaspr_delta, program

# A LIST whether the table is the same, the rows, a LIST before the commit, the commit, a LIST and two GETs behind it.
OF_AN_APPEND = 7
APPENDS = 16
# Of a changed right row with one left row: three versions, three look-ups, two appends and a MERGE.
WITHOUT_SPARK = 35
# Of a continuous run, see docs/design/buckets.md: the most requests of a small batch, beside those of the looks.
# It made 59.
OF_A_BATCH = 65
# A changed price makes a batch of the table, of the join and of the agent behind it.
PRICES, BATCHES = (1.5, 2.5, 3.5), 3
ORDERS, PRODUCTS = 9, 4
# Seconds between two looks of a stream, and seconds of an idle run.
EVERY, IDLE = 5, 20


@pytest.fixture
def counting(endpoint: str) -> Iterator[tuple[str, Proxy]]:
    """A server that notes requests, and its address."""
    with Proxy(endpoint).serving() as served:
        yield served


@pytest.fixture
def tables(warehouse: str) -> DeltaRs:
    found = folder_tables(Warehouse(warehouse).namespace("contended"))
    assert found is not None
    found.ensure("rows", RESULT)
    return found


def row(name: str) -> pa.Table:
    return pa.Table.from_pylist([{"key": name}], arrow_schema(RESULT.columns))


def append(tables: DeltaRs, name: str, number: int) -> bool | None:
    """Append a row in a transaction, as a batch does. Whether it was missing."""
    attempts = Attempts(tables, Statistics())
    return attempts.attempt_with(
        "append", "rows", lambda one: append_to(one, row(f"{name}-{number}"), Transaction(name, number))
    )


def run(program: list[str], address: str, **environment: str) -> None:
    """Run a program that reaches the store by an address where requests are counted."""
    environment = {**os.environ, "AWS_ENDPOINT_URL": address, **environment}
    subprocess.run(program, check=True, cwd=ROOT, env=environment)  # noqa: S603


def keys(tables: DeltaRs) -> list[str]:
    return sorted(row["key"] for row in tables.rows("rows", "SELECT key FROM t"))


def test_an_append_of_a_process_that_goes_on_makes_few_requests(
    warehouse: str, tables: DeltaRs, counting: tuple[str, Proxy]
) -> None:
    address, proxy = counting
    appender = [sys.executable, str(Path(__file__).with_name("appender.py"))]
    run([*appender, warehouse, "native", str(APPENDS), "native"], address, KASPR_DELTA_S3_COMMITS=str(APPENDS))
    assert keys(tables) == sorted(f"native-{number}" for number in range(APPENDS))
    assert dict(appends(proxy.requests)) == {
        version: OF_AN_APPEND for version in range(1, APPENDS) if (version + 1) % BUCKET_CHECKPOINT_INTERVAL
    }


def test_what_a_small_batch_of_a_join_does_without_spark_makes_few_requests(
    warehouse: str, endpoint: str, counting: tuple[str, Proxy]
) -> None:
    address, proxy = counting
    run([sys.executable, "-m", "tests.s3.small_batches", warehouse, "6", endpoint], address)
    ends = [number for number, request in enumerate(proxy.requests) if request.is_commit and PROGRESS in request.key]
    assert [last - first for first, last in pairwise(ends)][-3:] == [WITHOUT_SPARK] * 3


def appends(requests: list[Request]) -> Iterator[tuple[int, int]]:
    """The version of each commit but the last, and the requests from it to the next one, unless it has a checkpoint."""
    commits = [number for number, request in enumerate(requests) if request.is_commit]
    for this, following in pairwise(commits):
        some = requests[this:following]
        if not any("checkpoint" in request.key for request in some):
            yield int(requests[this].key[-25:-5]), len(some)


def test_a_look_at_a_table_without_news_is_one_list_of_the_newest_commit(
    tables: DeltaRs, counting: tuple[str, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, proxy = counting
    for number in range(3):
        append(tables, "a", number)
    assert tables.head("rows") is not None
    with monkeypatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", address)
        folders._opened.cache_clear()
        heads = {tables.head("rows") for _ in range(5)}
    folders._opened.cache_clear()
    assert [head.version for head in heads if head is not None] == [3]
    assert [request.method for request in proxy.requests] == ["LIST"] * 5
    assert all(f"{2:020}.json" in request.query for request in proxy.requests)


@pytest.mark.parametrize("commits", [0, 2, 3, 5])
def test_a_table_that_another_process_replaced_is_not_taken_for_the_one_that_is_open(
    tables: DeltaRs, commits: int
) -> None:
    for number in range(3):
        assert append(tables, "a", number)
    folder = tables.folder("rows")
    assert isinstance(folder, BucketFolder)
    folder.remove_all()
    tables.created("rows", RESULT)
    for number in range(commits):
        append_to(OpenTable(tables.open("rows")), row(f"other-{number}"))
    assert append(tables, "a", 2)
    assert keys(tables) == ["a-2", *(f"other-{number}" for number in range(commits))]
    head = tables.head("rows")
    assert head is not None
    assert head.version == commits + 1


def test_a_transaction_that_another_process_made_is_found_beside_a_table_that_is_open(tables: DeltaRs) -> None:
    assert append(tables, "a", 0)
    assert append_to(OpenTable(tables.open("rows")), row("a-1"), Transaction("a", 1))
    assert not append(tables, "a", 1)
    assert append(tables, "a", 2)
    assert not append(tables, "a", 2)
    assert keys(tables) == ["a-0", "a-1", "a-2"]


@pytest.mark.further
def test_threads_that_share_open_tables_lose_nothing_and_write_nothing_twice(tables: DeltaRs) -> None:
    def write(name: str) -> None:
        for number in range(6):
            append(tables, name, number)
            append(tables, name, number)

    threads = [threading.Thread(target=write, args=(f"thread-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keys(tables) == sorted(f"thread-{thread}-{number}" for thread in range(4) for number in range(6))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_small_batch_and_an_idle_run_make_few_requests(
    warehouse: str, counting: tuple[str, Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # of Spark's log
    address, proxy = counting
    products = generated("products", "--count", str(PRODUCTS))
    kaspr_delta(warehouse, "apply", "-f", str(BUNDLE))
    kaspr_delta(warehouse, "produce", "raw-products", given=products)
    orders = generated("orders", "--count", str(ORDERS), "--products", str(PRODUCTS))
    kaspr_delta(warehouse, "produce", "raw-orders", given=orders)
    tables = folder_tables(Warehouse(warehouse).namespace("order_system"))
    assert tables is not None
    command = program(warehouse, "run", "--continuous", "--every", f"{EVERY}s", "--progress", "json")
    environment = {**os.environ, "AWS_ENDPOINT_URL": address}
    with subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        try:
            while len(tables.rows("topic__enriched_orders", "SELECT key FROM t")) < ORDERS:
                assert process.poll() is None
                time.sleep(1)
            until_quiet(proxy)
            time.sleep(IDLE)
            idle, began = proxy.taken(), time.monotonic()
            requests: list[Request] = []
            product = json.loads(products.splitlines()[0])
            for price in PRICES:
                changed = json.dumps({"key": product["key"], "value": {**product["value"], "price": price}})
                kaspr_delta(warehouse, "produce", "raw-products", given=changed)
                requests += until_quiet(proxy)
            seconds = time.monotonic() - began
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert not any(request.is_commit for request in idle)
    lists = Counter(request.key for request in idle if request.method == "LIST")
    assert lists
    assert max(lists.values()) <= IDLE
    root = f"{warehouse.removeprefix('s3://bucket/')}/order_system"
    of_a_batch = (len(requests) - len(idle) / IDLE * seconds) / (BATCHES * len(PRICES))
    assert of_a_batch <= OF_A_BATCH, by_caller(requests, root).most_common(40)


def until_quiet(proxy: Proxy) -> list[Request]:
    """The requests until no table has got a commit for some looks."""
    found: list[Request] = []
    while True:
        time.sleep(2 * EVERY)
        some = proxy.taken()
        found += some
        if not any(request.is_commit for request in some):
            return found
