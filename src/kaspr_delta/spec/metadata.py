"""``metadata`` of a manifest: Kubernetes' ObjectMeta. This package uses the name and one label."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from kaspr_delta.spec.base import Integer, OpenMap, Problem, Spec, Text

APP_LABEL = "kaspr.io/app"
"""The label with the name of the application that a resource belongs to."""

_NOT_IN_A_NAME = re.compile(r"[\s/]")


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
        if _NOT_IN_A_NAME.search(self.name):
            yield Problem(f"'{self.name}' is no resource name", "a name has neither blanks nor '/'", ("name",))
