"""The fields that manifests of all kinds have in common."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kaspr_delta.spec.base import Spec, optional
from kaspr_delta.spec.metadata import Metadata

API_VERSION = "kaspr.io/v1alpha1"


class ResourceSpec(Spec):
    """The fields every ``spec`` may have. ``metadata.name`` is the name that counts, as in Kaspr."""

    name: str | None = optional("accepted; the name that counts is metadata.name")
    description: str = Field(default="", description="the purpose, in words")


class Resource(Spec):
    """One manifest. ``status`` is what ``kubectl get -o yaml`` adds: accepted, never read."""

    api_version: Literal["kaspr.io/v1alpha1"] = Field(description=f"`apiVersion: {API_VERSION}`")
    metadata: Metadata = Field(description="at least `name`, and the label kaspr.io/app")
    status: Any = optional("added by `kubectl get -o yaml`; never read")
