"""Kubernetes' side of a KasprApp: read and kept, so that an existing manifest loads unchanged.

The models go as deep as Kaspr's; deeper fields are Kubernetes' own and stay open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import Boolean, Integer, OpenMap, OpenSpec, Problem, Spec, Text, one_of, optional


class Tls(OpenSpec):
    """How Kafka's certificates are checked; ``{}`` turns TLS on, and Java's own authorities count."""

    ca_file: Text | None = optional("certificates of authorities, a PEM file")


class PasswordSecret(Spec):
    """Where a password is kept: a secret with its key, or an environment variable. ``environment`` is not Kaspr's."""

    secret_name: Text | None = optional("a secret, on Databricks a secret scope")
    password_key: Text | None = optional("the key of the password in the secret")
    environment: Text | None = optional("an environment variable that holds the password")

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        yield from one_of(written, ("secretName", "environment"), "a password is kept in one place")


class Authentication(Spec):
    """How Kaspr logs in to Kafka."""

    type: Literal["scram-sha-256", "scram-sha-512", "plain"] | None = optional("the SASL mechanism")
    username: str | None = optional("the user's name")
    password_secret: PasswordSecret | None = optional("where the password is kept")


class Resources(Spec):
    """Requests and limits of a container."""

    requests: OpenMap = Field(default_factory=dict)
    limits: OpenMap = Field(default_factory=dict)
    claims: tuple[OpenMap, ...] = ()


class Probe(OpenSpec):
    """A liveness or readiness probe."""

    failure_threshold: Integer | None = None
    initial_delay_seconds: Integer | None = None
    period_seconds: Integer | None = None
    success_threshold: Integer | None = None
    timeout_seconds: Integer | None = None


class Storage(Spec):
    """The disk of a Kaspr member."""

    type: Literal["ephemeral", "persistent-claim"] | None = None
    storage_class: str | None = Field(default=None, alias="class")
    size: str | None = None
    delete_claim: Boolean | None = None


class EnvironmentSource(Spec):
    """Where the value of an environment variable comes from."""

    secret_key_ref: OpenMap | None = None
    config_map_key_ref: OpenMap | None = None
    field_ref: OpenMap | None = None

    def problems(self) -> Iterator[Problem]:
        given = [source for source in (self.secret_key_ref, self.config_map_key_ref, self.field_ref) if source]
        if len(given) != 1:
            hint = "secretKeyRef, configMapKeyRef or fieldRef"
            yield Problem(f"'valueFrom' needs exactly one source, found {len(given)}", hint)


class EnvironmentVariable(Spec):
    """An environment variable of a container."""

    name: Text = Field(description="the name of the variable")
    value: str | None = None
    value_from: EnvironmentSource | None = None

    def problems(self) -> Iterator[Problem]:
        if (self.value is None) == (self.value_from is None):
            hint = "a text under 'value', or a reference under 'valueFrom'"
            yield Problem(f"variable '{self.name}' needs exactly one of 'value' and 'valueFrom'", hint)


class ObjectTemplate(OpenSpec):
    """Additions to a Kubernetes object."""

    metadata: dict[str, Any] = Field(default_factory=dict)


class ContainerTemplate(OpenSpec):
    """Additions to a container."""

    env: tuple[EnvironmentVariable, ...] = ()


class Template(Spec):
    """Additions to the Kubernetes objects the operator makes for an application."""

    service_account: ObjectTemplate | None = None
    pod: ObjectTemplate | None = None
    service: ObjectTemplate | None = None
    kaspr_container: ContainerTemplate | None = None
    python_packages_init_container: ContainerTemplate | None = None
