"""Commits in a bucket are atomic between processes, and between Spark and delta-rs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kaspr_delta.storage.layout import RESOURCES, RESULT
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.native.delta_rs import DeltaRs
from kaspr_delta.storage.native.system_tables import NativeSystemTables
from kaspr_delta.storage.opening import folder_tables

COMMITS = int(os.environ.get("KASPR_DELTA_S3_COMMITS", "25"))


def appending(warehouse: str, name: str, backend: str) -> subprocess.Popen[str]:
    program = [sys.executable, str(Path(__file__).with_name("appender.py")), warehouse, name, str(COMMITS), backend]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True, start_new_session=True)  # noqa: S603


def killed_again_and_again(warehouse: str, name: str, backend: str, kills: int) -> None:
    """Start an appender, kill it some commits later, and so on; the last one comes to its end."""
    for kill in range(kills + 1):
        process = appending(warehouse, name, backend)
        assert process.stdout is not None
        for count, _ in enumerate(process.stdout):
            if kill < kills and count >= COMMITS // (2 * kills):
                time.sleep(0.01 * kill)  # at some moment of the next commit
                os.killpg(process.pid, signal.SIGKILL)
                break
        process.stdout.close()
        assert process.wait() in {0, -signal.SIGKILL}


def rows_of(warehouse: str) -> tuple[list[str], int]:
    """The keys of the rows, and the newest version."""
    delta = folder_tables(Warehouse(warehouse).namespace("contended"))
    assert delta is not None
    head = delta.head("rows")
    assert head is not None
    return [row["key"] for row in delta.rows("rows", "SELECT key FROM t")], head.version


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3_600)
def test_two_processes_of_spark_and_one_of_delta_rs_that_are_killed_lose_nothing_and_write_nothing_twice(
    warehouse: str,
) -> None:
    writers = [("spark-1", "spark", 1), ("spark-2", "spark", 0), ("native", "native", 5)]
    threads = [threading.Thread(target=killed_again_and_again, args=(warehouse, *writer)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys, version = rows_of(warehouse)
    assert sorted(keys) == sorted(f"{name}-{number}" for name, _, _ in writers for number in range(COMMITS))
    assert version == len(writers) * COMMITS


@pytest.mark.further
def test_two_processes_without_java_that_are_killed_lose_nothing_and_write_nothing_twice(warehouse: str) -> None:
    threads = [
        threading.Thread(target=killed_again_and_again, args=(warehouse, f"native-{n}", "native", 5 * n))
        for n in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys, version = rows_of(warehouse)
    assert sorted(keys) == sorted(f"native-{n}-{number}" for n in range(2) for number in range(COMMITS))
    assert version == 2 * COMMITS


def test_writers_that_create_a_table_at_once_create_it_once(warehouse: str) -> None:
    for number in range(10):
        delta = folder_tables(Warehouse(warehouse).namespace(f"created-{number}"))
        assert isinstance(delta, DeltaRs)
        # As in processes of their own: the caller's lock binds this process alone.
        threads = [threading.Thread(target=delta.created, args=("rows", RESULT)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        head = delta.head("rows")
        assert head is not None
        assert head.version == 0


def test_a_change_of_the_applied_manifests_waits_for_that_of_another_process(warehouse: str) -> None:
    tables = folder_tables(Warehouse(warehouse).namespace("shop"))
    assert tables is not None
    system, moments = NativeSystemTables(tables), list[str]()

    def change(name: str) -> None:
        with system.alone(RESOURCES):
            moments.append(name)
            time.sleep(1)
            moments.append(name)

    threads = [threading.Thread(target=change, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert moments in (["one", "one", "two", "two"], ["two", "two", "one", "one"])
