"""Kubernetes' side of a KasprApp: read and kept, so that an existing manifest loads unchanged.

The models go as deep as Kaspr's; deeper fields are Kubernetes' own and stay open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import (
    Boolean,
    Integer,
    NaturalNumber,
    OpenMap,
    OpenSpec,
    Problem,
    Spec,
    Text,
    exactly_one,
    one_of,
    optional,
)


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

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "for example `secretKeyRef: {name: …, key: …}`"
        yield from exactly_one(written, ("secretKeyRef", "configMapKeyRef", "fieldRef"), "'valueFrom'", hint)


class EnvironmentVariable(Spec):
    """An environment variable of a container."""

    name: Text = Field(description="the name of the variable")
    value: str | None = None
    value_from: EnvironmentSource | None = None

    @classmethod
    def combination_problems(cls, written: Mapping[str, Any]) -> Iterator[Problem]:
        hint = "a text under 'value', or a reference under 'valueFrom'"
        yield from exactly_one(written, ("value", "valueFrom"), "an environment variable", hint)


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


_WEB = ("http://", "https://")


class CredentialsSecret(Spec):
    """The Kubernetes secret with the login of a package index."""

    name: Text = Field(description="the name of the secret")
    username_key: str = "username"
    password_key: str = "password"  # noqa: S105  the key's name, not a password


class Credentials(Spec):
    """The login of a package index."""

    secret_ref: CredentialsSecret | None = None


class BucketSecret(Spec):
    """The Kubernetes secret with the service account of a bucket."""

    name: Text = Field(description="the name of the secret")
    key: str = "sa.json"


class BucketCache(Spec):
    """A Google Cloud Storage bucket that keeps installed packages."""

    bucket: Text = Field(description="the name of the bucket")
    secret_ref: BucketSecret | None = None
    prefix: str = "kaspr-packages/"
    max_archive_size: str = "1Gi"


class PackageCache(Spec):
    """Where installed packages are kept between starts."""

    type: Literal["pvc", "gcs"] = "pvc"
    enabled: Boolean = False
    storage_class: str | None = None
    size: str = "256Mi"
    access_mode: Literal["ReadWriteMany"] = "ReadWriteMany"
    delete_claim: Boolean = True
    gcs: BucketCache | None = None

    def problems(self) -> Iterator[Problem]:
        if self.type == "gcs" and self.gcs is None:
            yield Problem("a cache of type 'gcs' needs 'gcs'", "for example `gcs: {bucket: my-bucket}`", ("type",))


class InstallPolicy(Spec):
    """The reaction to packages that cannot be installed."""

    retries: NaturalNumber = 3
    timeout: Annotated[int, Field(strict=True, ge=60)] = 600
    on_failure: Literal["block", "allow"] = "block"


class PythonPackages(Spec):
    """Packages by pip's grammar, and where they come from."""

    packages: tuple[Text, ...] = Field(description="a list such as [requests, pandas<3]")
    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    credentials: Credentials | None = None
    cache: PackageCache | None = None
    install_policy: InstallPolicy | None = None
    resources: Resources | None = None

    def problems(self) -> Iterator[Problem]:
        if not self.packages:
            yield Problem("the list of packages is empty", "name a package, or remove 'pythonPackages'", ("packages",))
        for index, package in enumerate(self.packages):
            if any(character.isspace() for character in package):
                hint = "write a specification without blanks, such as 'requests>=2.31'"
                yield Problem(f"package '{package}' holds a blank", hint, ("packages", index))
        if self.index_url is not None and not self.index_url.startswith(_WEB):
            yield Problem(f"'{self.index_url}' is no index", "an address with http:// or https://", ("indexUrl",))
        for index, url in enumerate(self.extra_index_urls):
            if not url.startswith(_WEB):
                yield Problem(f"'{url}' is no index", "an address with http:// or https://", ("extraIndexUrls", index))
