"""A standalone cluster of Spark: a master and two workers, each a process of this machine with a folder of its own.

The workers know nothing of this project: their environment is empty, and their Python is the one that an application
brings along.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.ports import free_port

HOME = Path(pyspark.__file__).parent
# Of a worker: for the executors of two drivers.
_OPTIONS = ("--host", "127.0.0.1", "--cores", "2", "--memory", "2g", "--webui-port", "0")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The address of the master, and the folders of the workers."""

    master: str
    folder: Path
    workers: tuple[subprocess.Popen[bytes], ...]

    def executors(self) -> list[int]:
        """The processes that run tasks now: the children of the workers."""
        parents = ",".join(str(one.pid) for one in self.workers)
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", parents], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return [int(pid) for pid in found.stdout.split()]

    def kill_an_executor(self) -> None:
        """Kill one of the processes that run tasks, once there is one."""
        while not (found := self.executors()):
            time.sleep(0.1)
        os.kill(found[0], signal.SIGKILL)

    def logs(self) -> str:
        """The logs of all executors so far."""
        return "".join(log.read_text() for log in self.folder.glob("worker-*/app-*/*/stderr"))


@contextmanager
def running_cluster(folder: Path, environment: Mapping[str, str]) -> Iterator[Cluster]:
    """A cluster that ends with the context, whose processes have only these variables beside their own."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    first, second = folder / "worker-1", folder / "worker-2"
    place = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    with _process(folder / "master", environment, "master.Master", *place):
        _wait_for(folder / "master" / "log", "I have been elected leader")
        with (
            _process(first, environment, "worker.Worker", *_OPTIONS, "--work-dir", str(first), master) as one,
            _process(second, environment, "worker.Worker", *_OPTIONS, "--work-dir", str(second), master) as other,
        ):
            for each in (first, second):
                _wait_for(each / "log", "Successfully registered with master")
            yield Cluster(master, folder, (one, other))


@contextmanager
def _process(folder: Path, given: Mapping[str, str], name: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the cluster, whose folder has its log."""
    folder.mkdir()
    environment = {**given, "PATH": "/usr/bin:/bin", "HOME": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(  # noqa: S603
            command, cwd=folder, env=environment, stdout=log, stderr=log
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def _wait_for(log: Path, text: str, patience: float = 60.0) -> None:
    """Wait until a log has a text."""
    end = time.monotonic() + patience
    while re.search(text, log.read_text()) is None:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
