"""Python written in a manifest."""

from __future__ import annotations

from pydantic import Field

from kaspr_delta.spec.base import Spec, Text, optional


class Code(Spec):
    """A piece of Python and, where it holds several functions, the name of the one to call."""

    python: Text = Field(description="the Python text, best as a block: `python: |`")
    entrypoint: Text | None = optional("the function to call, where the text holds several; else the first")
