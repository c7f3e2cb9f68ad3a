"""Many requests: arbitrary ones, made from OpenAPI, and many clients at once. Both take minutes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kaspr_delta.runtime.applying import apply_manifests
from kaspr_delta.spec.loader import load_path
from kaspr_delta.storage.namespace import Warehouse
from tests.unit.web.conftest import ROOT, Shop, plan_of, wait_for

CLIENTS = 200
SECONDS = 60
REQUESTS = 10_000
# Megabytes that a server may grow by once it is warm.
GROWTH = 64


class ServerProcess:
    """``kaspr-delta serve`` in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self.url = url

    @property
    def megabytes(self) -> float:
        """The private memory of the process."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))) / 1024


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[tuple[ServerProcess, Shop]]:
    shop = Shop(tmp_path, "order_desk")
    apply_manifests(Warehouse(str(tmp_path)), load_path(ROOT / "bundles" / "order-desk"))
    shop.put(plan_of(shop, "desk-orders"), {f"O{number}": {"item": "Widget", "quantity": 1} for number in range(5_000)})
    command = [sys.executable, "-m", "kaspr_delta", "serve", "--port", "0", "--warehouse", str(tmp_path)]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ)  # noqa: S603
    try:
        printed = wait_for(lambda: log.read_text() if "at http" in log.read_text() else "", seconds=120)
        url = printed.split(" at ")[1].split()[0]
        wait_for(lambda: answers(url), seconds=60)
        yield ServerProcess(process, url), shop
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0, log.read_text()


def answers(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/healthz").json()["ready"])
    except httpx.ConnectError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_no_random_request_is_answered_with_a_server_error(desk: tuple[ServerProcess, Shop]) -> None:
    running, _ = desk
    options = ["--checks", "not_a_server_error", "--max-examples", str(REQUESTS * 2 // 5), "--phases", "fuzzing"]
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{running.url}/openapi.json", *options]
    ended = subprocess.run(  # noqa: S603
        [*command, "--mode", "all", "--seed", "7", "--no-color", "--request-timeout", "30"],
        capture_output=True,
        text=True,
        timeout=3_500,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-4_000:]
    codes = Counter[str]()
    for line in httpx.get(f"{running.url}/metrics").text.splitlines():
        if line.startswith("kaspr_http_status_codes_total"):
            codes[line.split('status_code="')[1][0]] += int(float(line.split()[-1]))
    assert sum(codes.values()) >= REQUESTS, codes
    assert codes["5"] == 0, codes
    assert codes["4"] > 0, codes


@pytest.mark.slow
def test_200_clients_get_correct_rows_for_a_minute_in_bounded_memory(
    desk: tuple[ServerProcess, Shop],
) -> None:
    running, _ = desk
    assert set(asyncio.run(request_orders(running.url, CLIENTS, 5))) == {200}
    before = running.megabytes
    counted = asyncio.run(request_orders(running.url, CLIENTS, SECONDS))
    grown = running.megabytes - before
    print(f"{counted} in {SECONDS} s by {CLIENTS} clients, {grown:.0f} MB more than {before:.0f}")  # noqa: T201
    assert set(counted) == {200}
    assert grown < GROWTH


async def request_orders(url: str, clients: int, seconds: float) -> Counter[int]:
    """Run clients at once, each with one request after another; answers by status, -1 for a wrong row."""
    counted: Counter[int] = Counter()
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
            while time.monotonic() < end:
                answer = await client.get(f"/orders/O{number % 5_000}")
                counted[answer.status_code if answer.json()["quantity"] == 1 else -1] += 1
                number += clients

    await asyncio.gather(*(one(number) for number in range(clients)))
    return counted
