"""Topics bound to a real Kafka broker. A client without Spark produces and consumes records there."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from kaspr_delta import Application
from kaspr_delta.cli import application
from kaspr_delta.engine.binding.kafka import TIMESTAMP_HEADER
from kaspr_delta.errors import ResourceFailedError
from tests.continuous import wait_until
from tests.documented import blocks, output_matches
from tests.manifests import manifests
from tests.spark.broker import PASSWORD, Broker
from tests.spark.killing import killed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "bundles" / "kafka-orders"
TOPICS = ("raw-orders", "raw-products", "enriched-orders")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.kill()


def bundle_at(broker: Broker, folder: Path, prefix: str) -> Path:
    """Copy the bundle to a folder, bound to topics of this broker that are created with a prefix."""
    shutil.copytree(BUNDLE, folder)
    app = folder / "app.yaml"
    (folder / "values.yaml").write_text(f"kafka: {broker.address}\n")
    text = app.read_text()
    for topic in TOPICS:
        text = text.replace(f"{topic}:\n      kafka: {{}}", f"{topic}:\n      kafka: {{topic: {prefix}-{topic}}}")
    assert text.count(prefix) == len(TOPICS)
    app.write_text(text)
    broker.create_topics(3, *(f"{prefix}-{topic}" for topic in TOPICS))
    return folder


def test_the_readme_of_the_bundle_shows_the_output_of_its_commands(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark is not None
    folder = bundle_at(broker, tmp_path / "kafka-orders", "readme")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("KASPR_DELTA_WAREHOUSE", str(tmp_path / "wh"))
    commands = [command for block in blocks(folder / "README.md", "console") for command in block.commands()]
    assert commands
    for command, shown in commands:
        _, *arguments = shlex.split(command.replace("bundles/kafka-orders", str(folder)))
        result = CliRunner().invoke(application, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        printed = result.stdout.splitlines()
        assert not shown or output_matches(shown, printed), f"{command}\n{result.stdout}"
    written = broker.consume("readme-enriched-orders")
    assert sorted(json.loads(message.value() or b"")["total"] for message in written) == [19.0, 28.5, 120.0]


APPLICATION = """
KasprApp/pass-on:
  bootstrapServers: {secure}
  tls:
    caFile: {ca_file}
  authentication:
    type: scram-sha-512
    username: app
    passwordSecret:
      secretName: kafka-login
      passwordKey: password
  config:
    keySerializer: raw
    valueSerializer: raw
  topics:
    in:
      kafka: {{topic: {prefix}-in}}
    out:
      kafka:
        topic: {prefix}-out
        authentication:
          type: plain
          username: app
          passwordSecret:
            environment: PLAIN_PASSWORD
    back:
      kafka: {{topic: {prefix}-out}}
    new:
      kafka: {{topic: {prefix}-in, startingOffsets: latest}}
KasprAgent/pass-on:
  input:
    topic:
      name: in
  output:
    topics:
      - name: out
        keySelector:
          python: "def key(value): return value[:2] if value else b'none'"
        headersSelector:
          python: "def headers(value): return [('a', value), ('b', None)]"
KasprAgent/listen:
  input:
    topic:
      name: back, new
"""


def pass_on(broker: Broker, folder: Path, prefix: str) -> Path:
    broker.create_topics(2, f"{prefix}-in", f"{prefix}-out")
    folder.mkdir()
    text = APPLICATION.format(secure=broker.secure_address, ca_file=broker.ca_file, prefix=prefix)
    (folder / "pass-on.yaml").write_text(manifests("pass-on", text))
    return folder


def rows(app: Application, topic: str) -> list[tuple[Any, ...]]:
    """The records of a topic by offset, in the form of ``messages``."""
    columns = ("partition", "key", "value", "headers", "timestamp")
    found = app.topic(topic).stored.orderBy("offset").selectExpr(*columns[:4], "unix_millis(timestamp) AS timestamp")
    return [
        (
            row["partition"],
            None if row["key"] is None else bytes(row["key"]),
            None if row["value"] is None else bytes(row["value"]),
            [(h["key"], None if h["value"] is None else bytes(h["value"])) for h in row["headers"] or ()],
            row["timestamp"],
        )
        for row in found.collect()
    ]


def messages(found: list[Message]) -> list[tuple[Any, ...]]:
    return [(m.partition(), m.key(), m.value(), m.headers() or [], m.timestamp()[1]) for m in found]


def by_partition(records: list[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    found = defaultdict(list)
    for record in records:
        found[record[0]].append(record)
    return dict(found)


def test_records_pass_unchanged_with_their_times_over_tls_with_a_login(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_LOGIN_PASSWORD", PASSWORD)
    monkeypatch.setenv("PLAIN_PASSWORD", PASSWORD)
    given: list[dict[str, Any]] = [
        {"key": b"k\xff1", "value": b"v\x001", "timestamp": 1_000, "headers": [("h", b"\xfe"), ("h", None)]},
        {"key": None, "value": b"no key", "timestamp": 86_400_000, "partition": 1},
        {"key": b"gone", "value": None, "timestamp": 2_000},
        {"key": b"", "value": b"", "timestamp": 3_000},
    ]
    manifests = pass_on(broker, tmp_path / "app", "whole")
    app = Application.open(manifests, warehouse=tmp_path / "wh", spark=spark)
    broker.produce("whole-in", given)
    app.run()  # `new` begins at the end of the Kafka topic, and reads nothing yet
    broker.produce("whole-in", [{"key": b"later", "value": b"later", "timestamp": 5_000}])
    app.run()
    there = broker.consume("whole-in")
    assert by_partition(rows(app, "in")) == by_partition(messages(there))
    assert [record[2] for record in rows(app, "new")] == [b"later"]

    sent = [(m.key(), m.value(), m.headers()) for m in broker.consume("whole-out")]
    expected = [
        (b"v\x00", b"v\x001", [("a", b"v\x001"), ("b", None), (TIMESTAMP_HEADER, b"1000")]),
        (b"no", b"no key", [("a", b"no key"), ("b", None), (TIMESTAMP_HEADER, b"86400000")]),
        (b"none", None, [("a", None), ("b", None), (TIMESTAMP_HEADER, b"2000")]),
        (b"none", b"", [("a", b""), ("b", None), (TIMESTAMP_HEADER, b"3000")]),
        (b"la", b"later", [("a", b"later"), ("b", None), (TIMESTAMP_HEADER, b"5000")]),
    ]
    assert sorted(sent, key=repr) == sorted(expected, key=repr)
    # Records that come back have their original times; the header with the time is removed.
    app.run()
    assert Counter(map(repr, (r[1:] for r in rows(app, "back")))) == Counter(
        map(repr, ((key, value, headers[:2], int(headers[2][1] or b"")) for key, value, headers in expected))
    )
    assert app.dead_letters() == []
    kept = [file for file in (tmp_path / "wh").rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if PASSWORD.encode() in file.read_bytes()]


def test_the_error_of_a_wrong_password_never_shows_the_password(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_LOGIN_PASSWORD", "wr0ng-w0rd")
    monkeypatch.setenv("PLAIN_PASSWORD", "wr0ng-w0rd")
    app = Application.open(pass_on(broker, tmp_path / "app", "wrong"), warehouse=tmp_path / "wh", spark=spark)
    app.topic("out").produce([{"value": "x"}])
    with pytest.raises(ResourceFailedError) as failed:
        app.run()
    assert "topic/in failed: " in str(failed.value)
    assert "topic/out failed: " in str(failed.value)
    assert "uthenticat" in str(failed.value)
    assert "wr0ng-w0rd" not in str(failed.value)
    assert not [f for f in (tmp_path / "wh").rglob("*") if f.is_file() and b"wr0ng-w0rd" in f.read_bytes()]


def test_a_missing_password_is_an_error_that_names_its_variable(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_LOGIN_PASSWORD", raising=False)
    app = Application.open(pass_on(broker, tmp_path / "app", "without"), warehouse=tmp_path / "wh", spark=spark)
    with pytest.raises(ResourceFailedError, match="set the environment variable KAFKA_LOGIN_PASSWORD"):
        app.run()


@pytest.mark.parametrize(
    ("table", "moment", "copies"),
    [("export__out", "before", 1), ("export__out", "after", 1), ("_kaspr_progress", "before", 2)],
)
def test_a_kill_doubles_records_on_kafka_only_after_the_batch_was_written(  # noqa: PLR0917  fixtures, and the case
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    moment: str,
    copies: int,
) -> None:
    """At-least-once: a kill between the write to Kafka and the append to the progress table repeats the batch."""
    monkeypatch.setenv("KAFKA_LOGIN_PASSWORD", PASSWORD)
    monkeypatch.setenv("PLAIN_PASSWORD", PASSWORD)
    prefix = f"kill{table.strip('_')[:3]}{moment}"
    manifests = pass_on(broker, tmp_path / "app", prefix)
    app = Application.open(manifests, warehouse=tmp_path / "wh", spark=spark)
    app.run(only=["topic/out"])
    app.topic("out").produce([{"key": str(number), "value": str(number)} for number in range(5)])
    killed(manifests, tmp_path / "wh", "topic/out", (table, moment))
    app.run(only=["topic/out"])
    written = Counter(message.value() for message in broker.consume(f"{prefix}-out"))
    assert written == {str(number).encode(): copies for number in range(5)}


class WaveSender:
    """Random orders and products: sent to a broker, and kept to compute the expected result."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        self.broker, self.prefix = broker, prefix
        self.orders: dict[str, Any] = {}
        self.products: dict[str, Any] = {}
        self._random = random.Random(7)  # noqa: S311  the same data every time
        self._number = 0

    def send(self, orders_at_most: int = 200, names: int = 150) -> None:
        self._number += 1
        products = {f"P{i}": {"name": f"Product {i}", "price": self._number * i} for i in range(self._number, 12)}
        orders: dict[str, Any] = {}
        for _ in range(orders_at_most):
            name = f"O{self._random.randrange(names)}"
            product = f"P{self._random.randrange(14)}"
            order = {"order_id": name, "product_id": product, "quantity": self._random.randrange(9)}
            orders[name] = order if self._random.random() < 0.9 else None
        for topic, rows_, kept in (("raw-products", products, self.products), ("raw-orders", orders, self.orders)):
            records = [
                {
                    "key": json.dumps(key),
                    "value": None if value is None else json.dumps(value),
                    "timestamp": 1_700_000_000_000 + self._number,
                    "headers": [("wave", str(self._number).encode())],
                }
                for key, value in rows_.items()
            ]
            self.broker.produce(f"{self.prefix}-{topic}", records)
            kept.update(rows_)

    def joined(self) -> dict[str, Any]:
        there = {key: order for key, order in self.orders.items() if order is not None}
        return {
            key: {"left": order, "right": self.products[order["product_id"]]}
            for key, order in there.items()
            if order["product_id"] in self.products
        }


def start(manifests: Path, warehouse: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a continuous run in its own process group, so that Spark's JVM can be killed with it."""
    command = [sys.executable, "-m", "kaspr_delta", "run", str(manifests), "--warehouse", str(warehouse)]
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603  our own
            [*command, "--continuous", "--every", "1s"], stdout=out, stderr=out, start_new_session=True
        )


def wait_for(done: Callable[[], bool], run: subprocess.Popen[bytes], log: Path) -> None:
    wait_until(lambda: run.poll() is not None or done(), seconds=600)
    assert run.poll() is None, log.read_text()[-3_000:]


def test_kills_of_run_and_broker_neither_lose_nor_double_records_on_delta(spark: SparkSession, tmp_path: Path) -> None:
    """kill -9 of two continuous runs amid their batches, then of the broker during a third run, which goes on."""
    (tmp_path / "kafka").mkdir()
    broker = Broker(tmp_path / "kafka")
    broker.start()
    warehouse, log = tmp_path / "wh", tmp_path / "run.log"
    manifests = bundle_at(broker, tmp_path / "app", "storm")
    wave = WaveSender(broker, "storm")
    run = start(manifests, warehouse, log)
    try:
        wave.send(5_000, 5_000)  # more than the limits ``few`` and ``few_events``
        wait_for(lambda: len(broker.consume("storm-enriched-orders")) > 0, run, log)
        for pause in (0.5, 2.5):
            wave.send()
            time.sleep(pause)
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            wave.send()
            before = len(broker.consume("storm-enriched-orders"))
            run = start(manifests, warehouse, log)
            wait_for(lambda b=before: len(broker.consume("storm-enriched-orders")) > b, run, log)  # type: ignore[misc]
        wave.send()
        time.sleep(1)
        broker.kill()
        time.sleep(5)
        broker.start()
        before = len(broker.consume("storm-enriched-orders"))
        wave.send()
        wait_for(lambda: len(broker.consume("storm-enriched-orders")) > before, run, log)
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=600) == 0, log.read_text()[-3_000:]

        app = Application.open(manifests, warehouse=warehouse, spark=spark)
        app.run()
        for topic in ("raw-orders", "raw-products"):
            there = messages(broker.consume(f"storm-{topic}"))
            assert by_partition(rows(app, topic)) == by_partition(there), topic
        assert app.table("orders").to_dict() == {k: v for k, v in wave.orders.items() if v is not None}
        assert app.table("products").to_dict() == wave.products
        assert app.join("orders-products-join").to_dict() == wave.joined()
        assert app.dead_letters() == []

        sent = [(key, value) for _, key, value, _, _ in rows(app, "enriched-orders")]
        assert len(set(sent)) == len(sent)  # each value has the time at which it was made
        written = [(key, value) for _, key, value, _, _ in messages(broker.consume("storm-enriched-orders"))]
        assert set(written) == set(sent)
        assert dict(written) == dict(sent)  # the last value of each key is the same
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        broker.kill()
