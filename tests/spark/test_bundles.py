"""The applications in bundles/ behave as their READMEs show: each command prints the text below it.

In that text ``…`` matches anything, such as offsets that depend on earlier commits.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from kaspr_delta import Application
from kaspr_delta.cli import application
from tests.documented import ROOT, blocks, output_matches
from tests.spark.channels import values_of

# The order system has tests of its own: those of the demo. test_kafka.py tests the bundle on Kafka. The tutorial is a
# documented example that always runs, and test_shapes.py has the same shapes in one application.
BUNDLES = [
    *("event-counting", "fraud-detection", "order-desk", "order-entity", "order-totals", "page-views", "retail"),
    *("user-preferences", "windowed-counters"),
]


@pytest.mark.slow
@pytest.mark.parametrize("bundle", BUNDLES)
@pytest.mark.usefixtures("spark")
def test_a_readme_shows_the_output_of_its_commands(
    bundle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(tmp_path))
    readme = ROOT / "bundles" / bundle / "README.md"
    commands = [command for block in blocks(readme, "console") for command in block.commands()]
    assert any(shown for _, shown in commands)
    with contextlib.ExitStack() as stack:
        servers = Servers(stack)
        for command, shown in commands:
            if command.endswith(" &"):
                servers.start(command.removesuffix(" &"))
            elif command.startswith("curl "):
                servers.wait_for_answer(command, shown)
            else:
                printed = output_of(command)
                assert not shown or output_matches(shown, printed.splitlines()), f"{command}\n{printed}"


def output_of(command: str) -> str:
    """Run a command of a README; the text that it prints."""
    name, *arguments = shlex.split(command)
    assert name == "kaspr-delta"
    result = CliRunner().invoke(application, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


@dataclass
class Servers:
    """The servers that a README starts, each at a free port instead of the documented one."""

    stack: contextlib.ExitStack
    ports: dict[str, int] = field(default_factory=dict)

    def start(self, command: str) -> None:
        """Start a server in its own process, and wait until its tables can be read."""
        found = re.search(r"--port (\d+)", command)
        assert found is not None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.ports[found[1]] = port = free.getsockname()[1]
        arguments = shlex.split(command.replace(found[1], str(port)).replace("kaspr-delta", "kaspr_delta", 1))
        process = subprocess.Popen([sys.executable, "-m", *arguments])  # noqa: S603
        self.stack.callback(stop, process)
        deadline = time.monotonic() + 120
        while not is_ready(port):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def wait_for_answer(self, command: str, shown: list[str]) -> None:
        """Repeat a request until the answer is the documented one: new commits may take the server a moment."""
        for written, port in self.ports.items():
            command = command.replace(f"localhost:{written}", f"localhost:{port}")
        deadline = time.monotonic() + 20
        while True:
            curl_run = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
            if output_matches(shown, curl_run.stdout.splitlines()):
                return
            assert time.monotonic() < deadline, f"{command}\n{curl_run.stdout}"
            time.sleep(0.2)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def is_ready(port: int) -> bool:
    try:
        return bool(httpx.get(f"http://localhost:{port}/healthz").json()["ready"])
    except httpx.TransportError:
        return False


def test_every_bundle_is_tested() -> None:
    folders = {folder.name for folder in (ROOT / "bundles").iterdir() if folder.is_dir()}
    assert folders == {*BUNDLES, "order-system", "kafka-orders"}


def test_s1_3_s1_4_s1_5_s1_6_events_are_enriched_from_tables_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    with Application.open(ROOT / "bundles" / "user-preferences", warehouse=tmp_path, spark=spark) as app:
        app.topic("preferences-app-user-preferences-changelog").produce(
            [{"key": "u1", "value": {"channel": "sms"}}, {"key": "u2", "value": {"language": "de"}}]
        )
        app.table("api-cache").put({"weather": 21})
        app.topic("raw-events").produce(
            [{"value": {"user_id": user, "timestamp": 1, "api_key": "weather"}} for user in ("u1", "u2", "u3", "u1")]
        )
        app.topic("cache-actions").produce([{"value": {"action": "delete", "id": name}} for name in ("none", "none")])
        app.run()
        enriched = values_of(app, "enriched-events")
        assert [value.get("notification_channel") for value in enriched] == ["sms", "email", None, "sms"]
        assert [value["cached"] for value in enriched] == [21] * 4
        assert app.table("last-seen").get("u1") == {"last_seen": 1, "event_count": 2}
        assert len(app.topic("cache-actions-done").records()) == 2
        assert app.dead_letters() == []
