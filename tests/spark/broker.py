"""A real Kafka broker on loopback: one KRaft node, in a process of its own, that can be killed and started again.

Its jars come from Maven through Spark's Ivy. It has two listeners: one open, one with TLS and a login.
"""

from __future__ import annotations

import base64
import os
import subprocess
import time
import uuid
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kaspr_delta.runtime.java import java_command
from tests.ports import free_port

VERSION = "4.1.0"
USERNAME, PASSWORD = "app", 'pass"word\\'
# librdkafka logs to standard error that a broker is down. Tests stop the broker on purpose.
_QUIET = {"log_level": 0}
_SECONDS = 180


@cache
def classpath() -> str:
    """The class path of a broker. Downloads its jars to Ivy's cache if they are missing."""
    jars = Path(pyspark.__file__).parent / "jars"
    ivy = next(jars.glob("ivy-2*.jar"))
    home = Path.home() / ".ivy2.5.2"  # the Ivy folder of Spark
    found = home / f"kafka-{VERSION}.classpath"
    if not found.exists() or not all(Path(jar).exists() for jar in found.read_text().split(os.pathsep)):
        home.mkdir(exist_ok=True)
        ivy_arguments = ["-dependency", "org.apache.kafka", "kafka_2.13", VERSION, "-confs", "default", "-m2compatible"]
        _run(java_command(), "-jar", str(ivy), "-cache", str(home / "cache"), *ivy_arguments, "-cachepath", str(found))
    return found.read_text().strip()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)  # noqa: S603  our own
    assert done.returncode == 0, done.stdout + done.stderr


class Broker:
    """A broker with its data in a folder. ``address`` is open, ``secure_address`` needs TLS and a login."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = [free_port() for _ in range(3)]
        self.address, self.secure_address, controller = (f"127.0.0.1:{port}" for port in ports)
        self.ca_file = folder / "ca.pem"
        self._process: subprocess.Popen[bytes] | None = None
        self._make_certificate()
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in self._config(controller).items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        scram = [f"{kind}=[name={USERNAME},password={PASSWORD}]" for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
        login = [part for one in scram for part in ("--add-scram", one)]
        _run(*self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings), *login))

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        with (self.folder / "broker.log").open("ab") as log:
            command = self._java("kafka.Kafka", str(self._settings))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603  our own
        until = time.monotonic() + _SECONDS
        while True:
            try:
                self._admin().list_topics(timeout=2)
            except KafkaException:
                assert self._process.poll() is None, (self.folder / "broker.log").read_text()[-2_000:]
                assert time.monotonic() < until, "the broker does not answer"
            else:
                return

    def kill(self) -> None:
        """Kill the broker, without a shutdown."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create_topics(self, partitions: int, *names: str) -> None:
        """Create topics."""
        admin = self._admin()  # kept: pending requests end with their client
        for made in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
            made.result()

    def produce(self, topic: str, records: Iterable[dict[str, Any]]) -> None:
        """Append records to a topic. Each is the keyword arguments of ``Producer.produce``, such as key and value."""
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True, **_QUIET})
        for record in records:
            producer.produce(topic, **record)
            producer.poll(0)
        assert producer.flush(_SECONDS) == 0

    def consume(self, topic: str) -> list[Message]:
        """All records of a topic, partition by partition."""
        settings = {"bootstrap.servers": self.address, "group.id": "reader", "enable.auto.commit": False}
        consumer = Consumer({**settings, "enable.partition.eof": False, **_QUIET})
        found: list[Message] = []
        try:
            for number in self._admin().list_topics(topic, timeout=10).topics[topic].partitions:
                first, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
                consumer.assign([TopicPartition(topic, number, first)])
                while first < end:
                    message = consumer.poll(10)
                    assert message is not None
                    assert message.error() is None, message.error()
                    found.append(message)
                    first = (message.offset() or 0) + 1
        finally:
            consumer.close()
        return found

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, **_QUIET})

    def _java(self, *command: str) -> list[str]:
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath()]
        return [java_command(), *options, *command]

    def _make_certificate(self) -> None:
        """Make a self-signed certificate for the loopback address."""
        keytool = str(Path(java_command()).resolve().with_name("keytool"))
        store = ["-keystore", str(self.folder / "broker.p12"), "-storepass", "not-secret", "-alias", "broker"]
        names = ["-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"]
        _run(keytool, "-genkeypair", *store, *names, "-keyalg", "EC", "-storetype", "PKCS12")
        _run(keytool, "-exportcert", *store, "-rfc", "-file", str(self.ca_file))

    def _config(self, controller: str) -> dict[str, str]:
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        escaped = f'{plain} user_{USERNAME}="{password}";'.replace("\\", "\\\\")  # for a properties file
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"OPEN://{self.address},SECURE://{self.secure_address},CONTROLLER://{controller}",
            "advertised.listeners": f"OPEN://{self.address},SECURE://{self.secure_address}",
            "listener.security.protocol.map": "OPEN:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
            "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": escaped,
            "listener.name.secure.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.secure.scram-sha-512.sasl.jaas.config": scram,
            "ssl.keystore.location": str(self.folder / "broker.p12"),
            "ssl.keystore.password": "not-secret",
            "log.dirs": str(self.folder / "data"),
            "log.retention.hours": "-1",  # records of tests may be old
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
