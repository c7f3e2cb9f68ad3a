"""Plans of topics that are bound to Kafka or to files. They hold no passwords, only where passwords are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kaspr_delta.spec.bindings import Direction, FileFormat
from kaspr_delta.spec.diagnostics import Location


@dataclass(frozen=True, slots=True)
class SecretPlan:
    """Where a password is kept: an environment variable, or a key of a secret (on Databricks, of a secret scope)."""

    environment: str
    scope: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class LoginPlan:
    """How to log in to Kafka. ``mechanism`` is the SASL mechanism."""

    mechanism: str
    username: str
    password: SecretPlan


@dataclass(frozen=True, slots=True)
class KafkaPlan:
    """A topic on Kafka: ``topic`` is its name there, ``starting_offsets`` where a new reader or writer begins."""

    topic: str
    bootstrap_servers: str
    tls: bool
    ca_file: str | None
    login: LoginPlan | None
    starting_offsets: Literal["earliest", "latest"]
    fail_on_data_loss: bool

    @property
    def label(self) -> str:
        """Its name in the state of its reader. The servers are left out: a cluster may get other addresses."""
        return f"kafka:{self.topic}"

    @property
    def text(self) -> str:
        """For people."""
        return f"Kafka topic {self.topic} at {self.bootstrap_servers}"


@dataclass(frozen=True, slots=True)
class FilesPlan:
    """Rows of the files in a folder. ``schema`` is empty for JSON lines; ``key`` and ``timestamp`` name columns."""

    path: str
    format: FileFormat
    schema: str
    key: str | None
    timestamp: str | None
    header: bool
    delimiter: str

    @property
    def label(self) -> str:
        """Their name in the state of their reader."""
        return f"files:{self.path}"

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.format} files in {self.path}"


EndpointPlan: TypeAlias = KafkaPlan | FilesPlan


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """A topic that is read from an endpoint, or written to one. ``log`` is the log of the reader or writer."""

    direction: Direction
    endpoint: EndpointPlan
    log: str
    location: Location

    @property
    def text(self) -> str:
        """For people."""
        return f"{'from' if self.direction == 'input' else 'to'} {self.endpoint.text}"
