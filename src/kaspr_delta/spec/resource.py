"""The fields that manifests of all kinds have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import Integer, OpenMap, Problem, Spec, Text, optional

API_VERSION = "kaspr.io/v1alpha1"
APP_LABEL = "kaspr.io/app"
"""The label with the name of the application that a resource belongs to."""

TopicSerializer = Literal["json", "raw", "pickle", "binary"]
TableSerializer = Literal["json", "raw"]

OnChange = Literal["refuse", "rebuild", "side-by-side"]
"""The reaction to a state that was made by another definition."""


class Code(Spec):
    """A piece of Python and, where it holds several functions, the name of the one to call."""

    python: Text = Field(description="the Python text, best as a block: `python: |`")
    entrypoint: Text | None = optional("the function to call, where the text holds several; else the first")


# Names of folders have 255 bytes at most, and those of tables have more before a resource's name and behind it.
_LONGEST_NAME = 200


class Metadata(Spec):
    """Name, labels and whatever else Kubernetes keeps about an object."""

    name: Text = Field(description="the name of the resource")
    labels: dict[str, str] = Field(
        default_factory=dict, description="`kaspr.io/app: NAME` says to which application it belongs"
    )
    annotations: dict[str, str] = Field(default_factory=dict)
    namespace: str | None = None
    generate_name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: Integer | None = None
    self_link: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Integer | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OpenMap, ...] = ()
    managed_fields: tuple[Any, ...] = ()

    @property
    def application(self) -> str | None:
        """The name of the application that the resource belongs to, from its label."""
        return self.labels.get(APP_LABEL) or None

    def problems(self) -> Iterator[Problem]:
        if re.search(r"[\s/]", self.name):  # the command line takes it as `kind/name`
            yield Problem(f"'{self.name}' is no resource name", "a name has neither blanks nor '/'", ("name",))
        if len(self.name.encode()) > _LONGEST_NAME:
            yield Problem(
                "this name is too long", f"at most {_LONGEST_NAME} bytes: tables have it in theirs", ("name",)
            )


class ResourceSpec(Spec):
    """The fields every ``spec`` may have. ``metadata.name`` is the name that counts, as in Kaspr."""

    name: str | None = optional("accepted; the name that counts is metadata.name")
    description: str = Field(default="", description="the purpose, in words")


class Resource(Spec):
    """One manifest. ``status`` is what ``kubectl get -o yaml`` adds: accepted, never read."""

    api_version: Literal["kaspr.io/v1alpha1"] = Field(description=f"`apiVersion: {API_VERSION}`")
    metadata: Metadata = Field(description="at least `name`, and the label kaspr.io/app")
    status: Any = optional("added by `kubectl get -o yaml`; never read")
