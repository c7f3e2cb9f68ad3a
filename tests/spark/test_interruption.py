"""Commands that are ended by SIGTERM, or by Ctrl-C, which a terminal sends to all processes of its group."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kaspr_delta import Application
from tests.continuous import wait_until
from tests.manifests import manifests, opened

# Two agents in a row. The first one creates a file when it begins an event, and then sleeps.
MANIFESTS = """
KasprAgent/slow:
  input: {{topic: {{name: orders}}}}
  output: {{topics: [{{name: checked}}]}}
  processors:
    pipeline: [check]
    operations:
      - name: check
        map:
          python: |
            import pathlib, time

            def check(value):
                pathlib.Path("{under_way}").touch()
                time.sleep({seconds})
                return value
KasprAgent/after:
  input: {{topic: {{name: checked}}}}
  output: {{topics: [{{name: shipped}}]}}
  processors:
    pipeline: [ship]
    operations: [{{name: ship, map: {{python: "def ship(value): return value"}}}}]
"""


@dataclass
class Terminal:
    """A command with its own process group, as in a terminal."""

    process: subprocess.Popen[str]

    def press_ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self, seconds: float = 120) -> tuple[int, str]:
        """Wait for the end; the exit code and the output."""
        printed, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, printed


@contextmanager
def terminal(scratch: Path, *arguments: str | Path) -> Iterator[Terminal]:
    """Run a command of ``kaspr-delta``. Its JVM is found by the scratch folder on the command line."""
    command = [sys.executable, "-m", "kaspr_delta", *map(str, arguments)]
    scratch.mkdir(exist_ok=True)
    process = subprocess.Popen(  # noqa: S603
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    try:
        yield Terminal(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def jvms(scratch: Path) -> list[int]:
    """The processes that have the folder on their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(scratch) in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:  # the process has ended
            continue
    return found


@dataclass
class Shop:
    """An application with one order, whose event is slow."""

    folder: Path
    spark: SparkSession
    seconds: int

    def __post_init__(self) -> None:
        text = MANIFESTS.format(under_way=self.under_way, seconds=self.seconds)
        self.app = opened(self.spark, self.folder, "shop", text)
        self.app.topic("orders").produce([{"key": 1, "value": 1}])

    @property
    def under_way(self) -> Path:
        return self.folder / "under-way"

    def run(self) -> AbstractContextManager[Terminal]:
        return terminal(self.folder / "scratch", "run", "--warehouse", self.folder / "wh")

    def values(self, topic: str) -> list[object]:
        return [record["value"] for record in self.app.topic(topic).records()]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_finishes_its_batch_and_begins_no_other(
    spark: SparkSession, tmp_path: Path, number: int, code: int
) -> None:
    shop = Shop(tmp_path, spark, seconds=4)
    with shop.run() as running:
        wait_until(shop.under_way.exists)
        if number == signal.SIGINT:
            running.press_ctrl_c()
        else:
            running.process.send_signal(number)
        ended, printed = running.ended()
    assert ended == code, printed
    assert "stopped before everything was caught up; the next run goes on from here" in printed
    assert "Traceback" not in printed
    assert "Py4J" not in printed
    assert (shop.values("checked"), shop.values("shipped")) == ([1], [])
    shop.app.run()
    assert shop.values("shipped") == [1]


def test_ctrl_c_while_spark_starts_prints_one_sentence_and_leaves_no_jvm(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(
        manifests("shop", MANIFESTS.format(under_way=tmp_path / "under-way", seconds=0))
    )
    scratch = tmp_path / "scratch"
    with terminal(scratch, "run", tmp_path / "shop.yaml", "--continuous", "--warehouse", tmp_path / "wh") as starting:
        wait_until(lambda: jvms(scratch))
        time.sleep(3)
        starting.press_ctrl_c()
        ended, printed = starting.ended(seconds=20)
    assert ended == 130, printed
    *before, last = printed.strip().splitlines()
    assert last == "interrupted: committed batches are kept"
    assert all(line.startswith("Spark starts: ") for line in before), printed
    wait_until(lambda: not jvms(scratch), seconds=60)


@pytest.mark.slow
def test_a_second_ctrl_c_ends_a_run_at_once(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path, spark, seconds=600)
    with shop.run() as running:
        wait_until(shop.under_way.exists)
        running.press_ctrl_c()
        time.sleep(2)
        assert running.process.poll() is None
        running.press_ctrl_c()
        ended, printed = running.ended(seconds=20)
    assert ended == 130, printed
    assert "ended at once: the next run goes on from here" in printed
    assert "Traceback" not in printed
    wait_until(lambda: not jvms(tmp_path / "scratch"), seconds=60)
    assert shop.values("checked") == []


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1, 8, 25])
@pytest.mark.parametrize("command", ["demo", "produce", "rebuild", "load"])
def test_ctrl_c_at_any_moment_of_a_command_prints_no_traceback(
    order_system: Callable[[], Application], tmp_path: Path, command: str, seconds: float
) -> None:
    order_system()
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"key": str(number), "value": {}}) + "\n" for number in range(10_000)))
    calls: dict[str, list[str | Path]] = {
        "demo": ["demo"],
        "produce": ["produce", "raw-orders", rows],
        "rebuild": ["rebuild", "join/orders-products-join"],
        "load": ["table", "orders", "load", rows],
    }
    with terminal(tmp_path / "scratch", *calls[command], "--warehouse", tmp_path / "wh") as running:
        time.sleep(seconds)
        if running.process.poll() is None:
            running.press_ctrl_c()
        ended, printed = running.ended()
    assert ended in {0, 130}, printed
    assert "Traceback" not in printed
