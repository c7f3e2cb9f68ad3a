"""A commit whose answer is lost is told from a lost race: it is there once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kaspr_delta.storage.layout import RESULT
from kaspr_delta.storage.namespace import Warehouse
from kaspr_delta.storage.opening import folder_tables
from tests.s3.counting import Proxy, Request

COMMITS = 5


class Lossy(Proxy):
    """Loses its first answer to each commit."""

    def loses(self, request: Request) -> bool:
        return request.is_commit and self.requests.count(request) == 1


@pytest.fixture
def lossy(endpoint: str) -> Iterator[tuple[str, Lossy]]:
    """A server before the other one, and its address."""
    with Lossy(endpoint).serving() as served:
        yield served


@pytest.mark.slow
@pytest.mark.spark
def test_a_commit_of_spark_whose_answer_is_lost_is_made_once(
    warehouse: str, lossy: tuple[str, Lossy], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = folder_tables(Warehouse(warehouse).namespace("contended"))
    assert tables is not None
    tables.ensure("rows", RESULT)
    address, proxy = lossy
    with monkeypatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", address)
        appender = [sys.executable, str(Path(__file__).with_name("appender.py"))]
        done = subprocess.run([*appender, warehouse, "spark", str(COMMITS), "spark"], check=False)  # noqa: S603
    assert done.returncode == 0
    keys = sorted(row["key"] for row in tables.rows("rows", "SELECT key FROM t"))
    assert keys == [f"spark-{number}" for number in range(COMMITS)]
    puts = Counter(request.key for request in proxy.requests if request.is_commit)
    assert list(puts.values()) == [2] * COMMITS
