"""``kaspr-delta schema``: the JSON schema of manifests, for editors."""

from __future__ import annotations

import json

import typer

from kaspr_delta.cli.target import Target
from kaspr_delta.spec.json_schema import manifest_schema


def schema(_: Target) -> None:
    """Print the JSON schema of manifests. An editor that knows it completes fields and shows what they are for.

    Editors with a YAML language server (VS Code, Neovim, Emacs, IntelliJ …) find it by the first line of a manifest:

        # yaml-language-server: $schema=kaspr.schema.json

    For example:

        kaspr-delta schema > kaspr.schema.json
    """
    typer.echo(json.dumps(manifest_schema(), indent=2, ensure_ascii=False))
