"""A manifest of any kind."""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

from pydantic import ConfigDict, Field, TypeAdapter

from kaspr_delta.spec.agent import KasprAgent
from kaspr_delta.spec.app import KasprApp
from kaspr_delta.spec.join import KasprJoin
from kaspr_delta.spec.resource import Resource
from kaspr_delta.spec.table import KasprTable
from kaspr_delta.spec.task import KasprTask
from kaspr_delta.spec.webview import KasprWebView

Manifest: TypeAlias = KasprApp | KasprTable | KasprJoin | KasprAgent | KasprWebView | KasprTask

MANIFEST: TypeAdapter[Manifest] = TypeAdapter(
    Annotated[Manifest, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)
"""Makes a manifest from plain data: the only place where manifests are validated."""

KINDS: dict[str, type[Resource]] = {kind.__name__: kind for kind in get_args(Manifest)}
"""The models of all kinds, by the name under ``kind``."""
