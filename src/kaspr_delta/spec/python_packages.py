"""``pythonPackages`` of a KasprApp: the packages that its functions import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from kaspr_delta.spec.base import Boolean, NaturalNumber, Problem, Spec, Text
from kaspr_delta.spec.kubernetes import Resources

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
