"""KasprJoin: a foreign-key join of two tables, kept up to date."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kaspr_delta.spec.base import Text
from kaspr_delta.spec.code import Code
from kaspr_delta.spec.resource import Resource, ResourceSpec


class JoinSpec(ResourceSpec):
    """The fields of a join."""

    left_table: Text = Field(description="the KasprTable whose rows drive the join")
    right_table: Text = Field(description="the KasprTable that is looked up")
    extractor: Code = Field(description="a Python function that takes the left value and returns the right table's key")
    type: Literal["inner", "left"] = "inner"
    output_channel: Text | None = None


class KasprJoin(Resource):
    """A join manifest."""

    kind: Literal["KasprJoin"]
    spec: JoinSpec = Field(description="leftTable, rightTable and extractor")
