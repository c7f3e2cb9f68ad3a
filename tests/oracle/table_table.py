"""Joins of two tables by their keys."""

from __future__ import annotations

from tests.oracle.family import Family
from tests.oracle.outputs import JoinOutput

FAMILY = Family(
    shape="table-table",
    types=("inner", "left", "outer"),
    inputs={"left": "table", "right": "table"},
    output=JoinOutput(has_result=True),
)
